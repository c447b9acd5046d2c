//! The structures against the header, as a C compiler lays them out.

#![allow(clippy::unwrap_used)]

use std::{fs, mem::offset_of, path::Path, process::Command};

use altgrad_end_to_end::skipped;

use altgrad_plugin_api::StepScalars;

use super::*;
use crate::ffi::c_plugins::{CMetric, CParam, CRun, Optimizer, Sink};

macro_rules! fields {
    ($rust:ty: $($c:literal $($field:ident).+),*) => {
        (size_of::<$rust>(), vec![$(($c, offset_of!($rust, $($field).+))),*])
    };
}

/// Structures of the header: name, then our size, and our places of its fields.
type Row = (&'static str, (usize, Vec<(&'static str, usize)>));

fn rows() -> [Row; 14] {
    let library = fields!(Library: "magic" magic, "struct_size" struct_size, "abi_major" abi_major, "abi_minor" abi_minor,
        "format_count" format_count, "compiler" compiler, "cpu_features" cpu_features, "formats" formats,
        "optimizers" optimizers, "sinks" sinks, "optimizer_count" optimizer_count, "sink_count" sink_count);
    let format = fields!(Format: "struct_size" struct_size, "spec" spec, "id" id, "version" version, "summary" summary,
        "minifloat" minifloat, "bits" bits, "kernel_count" kernel_count, "values" values, "round" functions.round,
        "encode" functions.encode, "decode" functions.decode, "kernels" kernels, "amax_target" amax_target,
        "threshold_count" threshold_count, "thresholds" thresholds, "value_count" value_count,
        "option_count" option_count, "options" options, "codebooks" codebooks, "codebook_count" codebook_count,
        "codebook_choice" codebook_choice, "magnitude" magnitude, "describe" describe);
    let kernel = fields!(Kernel: "struct_size" struct_size, "op" op, "language" language, "architecture" architecture,
        "vector" vector, "units" units, "shared_bytes" shared_bytes, "info_words" info_words, "buffer_count" buffer_count,
        "info_count" info_count, "statistic_count" statistic_count, "partial_sum_count" partial_sum_count, "entry" entry,
        "source" source, "buffers" buffers, "info" info, "statistics" statistics, "partial_sums" partial_sums);
    [
        ("altgrad_library_v1", library),
        ("altgrad_format_v1", format),
        ("altgrad_kernel_v1", kernel),
        (
            "altgrad_optimizer_v1",
            fields!(Optimizer: "struct_size" struct_size, "elementwise" elementwise, "id" id, "version" version,
                "summary" summary, "options" options, "option_count" option_count, "state_count" state_count,
                "states" states, "create" create, "destroy" destroy, "step" step),
        ),
        (
            "altgrad_sink_v1",
            fields!(Sink: "struct_size" struct_size, "option_count" option_count, "id" id, "version" version,
                "summary" summary, "options" options, "create" create, "destroy" destroy, "open" open, "log" log,
                "summarize" summarize, "finish" finish),
        ),
        (
            "altgrad_option",
            fields!(COption: "name" name, "help" help, "text" text, "number" number, "least" least, "most" most,
                "type" kind),
        ),
        ("altgrad_value", fields!(CValue: "number" number, "text" text)),
        ("altgrad_param", fields!(CParam: "name" name, "shape" shape, "rank" rank)),
        (
            "altgrad_run",
            fields!(CRun: "name" name, "folder" folder, "config_toml" config_toml, "resume_step" resume_step,
                "resumes" resumes),
        ),
        ("altgrad_metric", fields!(CMetric: "name" name, "value" value, "timing" timing)),
        (
            "altgrad_step_scalars",
            fields!(StepScalars: "lr" lr, "update" update, "updates" updates, "key" key),
        ),
        ("altgrad_statistic", fields!(Named<u64>: "name" name, "merge" value)),
        ("altgrad_error", fields!(CError: "message" message, "size" size)),
        (
            "altgrad_random_key",
            fields!(RandomKey: "seed" seed, "step" step, "tensor" tensor, "offset" offset),
        ),
    ]
}

#[test]
fn structures_are_laid_out_as_in_the_header() {
    let mut text = String::from("#include <stdio.h>\n#include \"altgrad_plugin.h\"\nint main(void) {\n");
    let mut expected = String::new();
    for (name, (size, fields)) in rows() {
        text += &format!("printf(\"{name} %zu\\n\", sizeof({name}));\n");
        expected += &format!("{name} {size}\n");
        for (field, place) in fields {
            text += &format!("printf(\"{name}.{field} %zu\\n\", offsetof({name}, {field}));\n");
            expected += &format!("{name}.{field} {place}\n");
        }
    }
    text += "printf(\"%zu %zu %zu %zu\\n\", sizeof(altgrad_minifloat), sizeof(altgrad_buffer), sizeof(altgrad_info),\n";
    text += "sizeof(altgrad_partial_sum));\nprintf(\"%llx %u.%u\\n\", (unsigned long long)ALTGRAD_MAGIC,\n";
    text += "ALTGRAD_C_MAJOR, ALTGRAD_C_MINOR);\nputs(ALTGRAD_C_VERSION);\n}\n";
    expected += &format!("16 8 16 16\n{MAGIC:x} {0}\n{0}\n", Version(C_VERSION));
    if let Some(found) = printed("structures_are_laid_out_as_in_the_header", &text, &[]) {
        assert_eq!(found, expected);
    }
}

/// The output of a program in C; `None`, with a message, without a C compiler.
fn printed(test: &str, text: &str, options: &[&str]) -> Option<String> {
    let folder = tempfile::tempdir().unwrap();
    let (source, program) = (folder.path().join("printed.c"), folder.path().join("printed"));
    fs::write(&source, text).unwrap();
    let header = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../plugin-api/include");
    let mut compiler = Command::new("cc");
    compiler.arg("-std=c11").args(options).arg("-I").arg(header).arg(&source).arg("-o").arg(&program);
    let Ok(compiled) = compiler.output() else {
        skipped(test, "there is no C compiler");
        return None;
    };
    assert!(compiled.status.success(), "{}", String::from_utf8_lossy(&compiled.stderr));
    Some(String::from_utf8(Command::new(program).output().unwrap().stdout).unwrap())
}

#[test]
fn the_features_that_the_compiler_assumes_are_named() {
    let text =
        "#include <stdio.h>\n#include \"altgrad_plugin.h\"\nint main(void) { puts(ALTGRAD_CPU_FEATURES); }\n";
    let options = ["-D__F16C__=1", "-D__AVX512VBMI__=1", "-U__AVX512FP16__"];
    let Some(found) = printed("the_features_that_the_compiler_assumes_are_named", text, &options) else {
        return;
    };
    let names: Vec<&str> = found.trim().split(',').collect();
    assert!(names.contains(&"f16c") && names.contains(&"avx512vbmi"), "{names:?}");
    assert!(!names.contains(&"avx512fp16") && names.last() == Some(&""), "{names:?}");
}

#[test]
fn an_array_whose_count_was_forgotten_is_refused() {
    assert_eq!(array::<f32>(std::ptr::null(), 0, "its thresholds"), Ok(&[][..]));
    let fault = array([0.5f32].as_ptr(), 0, "its thresholds");
    assert_eq!(fault, Err("its thresholds are given, but their count is 0".into()));
}

#[test]
fn a_table_that_ends_before_a_field_has_zero_there() {
    let table = [16u32, 1, 2, 3];
    let read = |size| sized(table.as_ptr().cast::<[u32; 4]>(), size, 8, "it");
    assert_eq!(read(8), Ok([16, 1, 0, 0]));
    assert_eq!(
        (read(16), read(64)),
        (Ok(table), Ok(table)),
        "a newer table is longer than what is known of it"
    );
    assert_eq!(read(7), Err("it is 7 bytes long, version 0.1 has 8".into()));
}
