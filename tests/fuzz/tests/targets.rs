//! Everything of the host that reads files which others may have made or damaged.
//!
//! A target reads the files of its folder and keeps the guarantees to its callers; refusing is allowed. To add one: put
//! one or two valid inputs into `corpus/NAME/`, each a folder, and a test like these here.

#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::{collections::BTreeSet, fs, path::Path};

use altgrad_base::diagnostic::Diagnostic;
use altgrad_config::{self, DataSection, DatasetChoice, TokenizerChoice};
use altgrad_data::{Batches, Corpus, Split};
use altgrad_fuzz::Target;
use altgrad_loader::{
    LoadedLibrary, elf,
    info::check_descriptors,
    instance::{OptionTable, resolve},
    notes,
};
use altgrad_report::{
    compare::{Choice, Comparison},
    find::find,
    group::groups,
    page,
};
use altgrad_sweep::matrix::SweepMatrix;

use altgrad_engine::{debug::recording::Recording, load_model::SavedModel, sample};
use altgrad_plugin_api::{Config, Descriptor, OptionDefault, OptionSpec, PluginKind, RStr, ValueGrid};
use serde::Deserialize;

/// A refusal is for people: a message that fits a screen, for input of any length, and a hint.
fn readable(refusal: &Diagnostic) {
    assert!(!refusal.message.is_empty() && refusal.hint.as_ref().is_none_or(|hint| !hint.is_empty()));
}

#[test]
fn cast() {
    Target {
        name: "cast",
        words: &[
            b"{",
            b"}",
            b"[",
            b"]",
            b"\"",
            b"'",
            b"#",
            b",",
            b"\n",
            b"=",
            b"scaling.",
            b"1e400",
            b"\xc3\x28",
        ],
        bytes_a_byte: 1000,
        bytes: 1 << 18,
        read: |folder| {
            let text = fs::read(folder.join("cast")).unwrap_or_default();
            if let Err(refusal) = altgrad_config::cast::read_cast("--cast", &String::from_utf8_lossy(&text)) {
                readable(&refusal);
            }
        },
    }
    .fuzz();
}

#[test]
fn run_file() {
    Target {
        name: "run-file",
        words: &[
            b"[",
            b"]",
            b"{",
            b"}",
            b"\"",
            b"'''",
            b"\"\"\"",
            b"\n",
            b"=",
            b",",
            b".",
            b"a.",
            b"[a]\n",
            b"[[sink]]\n",
            b"[[quant.layer]]\n",
            b"\\u0000",
            b"\\U0010FFFF",
            b"\xef\xbb\xbf",
            b"\xc3\x28",
            b"match = ",
            b"load = ",
            b"1979-05-27T07:32:00Z",
            b"0x",
            b"inf",
            b"alphabet = ",
        ],
        bytes_a_byte: 1000,
        bytes: 1 << 18,
        read: |folder| {
            let overrides: Vec<String> = fs::read(folder.join("set"))
                .map(|bytes| String::from_utf8_lossy(&bytes).lines().map(str::to_string).collect())
                .unwrap_or_default();
            match altgrad_config::load(&folder.join("run.toml"), &overrides) {
                Err(refusal) => readable(&refusal),
                // A file that loads can be written, and the written file loads as the same.
                Ok((loaded, _)) => {
                    let resolved = folder.join("resolved.toml");
                    fs::write(&resolved, loaded.to_toml().unwrap()).unwrap();
                    let (again, _) = altgrad_config::load(&resolved, &[]).unwrap();
                    assert_eq!(again.to_toml().unwrap(), loaded.to_toml().unwrap());
                }
            }
        },
    }
    .fuzz();
}

#[test]
fn matrix_file() {
    Target {
        name: "matrix",
        words: &[
            b"[axes]\n",
            b"[[axes.a]]\n",
            b"[[exclude]]\n",
            b"[tune]\n",
            b"[stable]\n",
            b"label = ",
            b"run.seed = [1, 2]\n",
            b"tune = { values = [1] }\n",
            b"[",
            b"]",
            b"\"",
            b"1e308",
        ],
        bytes_a_byte: 1000,
        // Up to ten thousand combinations.
        bytes: 1 << 26,
        read: |folder| match SweepMatrix::read(&folder.join("matrix.toml")) {
            Err(refusal) => readable(&refusal),
            Ok(matrix) => match matrix.combinations() {
                Err(refusal) => readable(&refusal),
                Ok(combinations) => {
                    let names: BTreeSet<&String> = combinations.iter().map(|run| &run.name).collect();
                    assert_eq!(names.len(), combinations.len());
                    assert!(names.iter().all(|name| !name.contains(['/', '\0']) && !name.starts_with('.')));
                }
            },
        },
    }
    .fuzz();
}

#[test]
fn token_bins() {
    Target {
        name: "token-bins",
        words: &[
            b"{",
            b"[",
            b"\"vocab_size\":",
            b"\"dtype\":\"int64\"",
            b"\"",
            b"e999",
            b"\0",
            b"\xff\xff",
            b"\x93NUMPY\x02\0",
            b"'descr': '<u4'",
            b"'shape': (99999999999999999999,)",
            b"\x88\xd8\x34\x01",
            b"}(",
            b"}\x94(",
            b"h\x00",
            b"\x8c\x04itos",
            b"\x8d\xff\xff\xff\xff\xff\xff\xff\xff",
            b"cos\nsystem\n",
            b"us.",
        ],
        bytes_a_byte: 64,
        bytes: 1 << 18,
        read: |folder| {
            for tokenizer in
                TokenizerChoice::NAMES.iter().map(|name| name.parse::<TokenizerChoice>().unwrap())
            {
                let section = DataSection {
                    dataset: DatasetChoice::Bins(folder.to_path_buf()),
                    tokenizer,
                    block_size: 4,
                    batch_size: 2,
                    ..DataSection::default()
                };
                match Corpus::open(&section) {
                    Err(refusal) => readable(&refusal),
                    Ok(corpus) => {
                        let vocab = corpus.tokenizer.vocab() as i32;
                        let batches = Batches::new(corpus, 1, 2, 4);
                        let held_out =
                            batches.sample(Split::Validation, 1).chain(batches.whole(Split::Validation));
                        for batch in held_out.chain([batches.train(0, 0)]).map(Result::unwrap) {
                            let ids = batch.inputs.iter().chain(&batch.targets);
                            assert!(ids.clone().all(|id| (0..vocab).contains(id)), "{batch:?}");
                        }
                    }
                }
            }
        },
    }
    .fuzz();
}

/// Formats as files: what is read can be rounded to.
#[test]
fn format_file() {
    Target {
        name: "format-file",
        words: &[
            b"[[format]]\n",
            b"name = \"A\"\n",
            b"values = [0, 1]\n",
            b"exponent_bits = ",
            b"significand_bits = 0\n",
            b"bias = -1000\n",
            b"signed = false\n",
            b"subnormals = false\nzero = false\n",
            b"nan = \"negative-zero\"\n",
            b"infinity = \"last\"\n",
            b"thresholds = [0]\n",
            b"inf",
            b"-nan",
            b"1e39",
            b"1e-46",
            b"{\"format\":[",
            b"\"nan\"",
            b"[",
            b"{",
        ],
        bytes_a_byte: 1000,
        // 2^16 values, several times.
        bytes: 1 << 22,
        read: |folder| {
            for file in ["formats.toml", "formats.json"].map(|file| folder.join(file)) {
                if !file.is_file() {
                    continue;
                }
                match LoadedLibrary::load(&file, None) {
                    Err(refusal) => {
                        readable(&refusal);
                        let place = refusal.place.unwrap_or_default();
                        assert!(place.contains("formats."), "{place}");
                    }
                    Ok(library) => {
                        for descriptor in &library.info.descriptors {
                            let format = library.format_object(&descriptor.id, &Config::default()).unwrap();
                            let spec = format.spec().into_result().unwrap();
                            assert!(ValueGrid::new(&spec).unwrap().max_finite() > 0.0);
                        }
                    }
                }
            }
        },
    }
    .fuzz();
}

#[test]
fn library_file() {
    Target {
        name: "library-file",
        words: &[
            b"\x7fELF",
            b"\x02\0\0\0",
            b"\x01\0\0\0",
            b"\xff\xff\xff\xff\xff\xff\xff\x7f",
            b".note.altgrad",
            b"altgrad\0",
            b"{\"kind\":",
            b"\"",
            b"[",
        ],
        bytes_a_byte: 16,
        bytes: 1 << 18,
        read: |folder| {
            let Ok(bytes) = fs::read(folder.join("library.so")) else { return };
            if let Some((what, hint)) = elf::fault(&bytes) {
                assert!(!what.is_empty() && !hint.is_empty());
            }
            if let Err(refusal) = notes::read(&bytes) {
                readable(&refusal);
            }
        },
    }
    .fuzz();
}

/// A library's description of a plugin, as text; the values that cross from a library are the same in memory.
#[derive(Deserialize)]
struct Described {
    kind: u32,
    id: String,
    options: Vec<DescribedOption>,
}

#[derive(Deserialize)]
struct DescribedOption {
    name: String,
    default: serde_json::Value,
    min: Option<f64>,
    max: Option<f64>,
    #[serde(default)]
    choices: Vec<String>,
}

/// A text that is never freed, as a library's are not.
fn leaked(text: &str) -> &'static str {
    text.to_string().leak()
}

fn texts(texts: impl Iterator<Item = String>) -> &'static [RStr<'static>] {
    texts.map(|text| leaked(&text).into()).collect::<Vec<_>>().leak()
}

impl Described {
    fn descriptor(&self) -> Descriptor {
        let options: Vec<OptionSpec> = self.options.iter().map(DescribedOption::spec).collect();
        Descriptor::new(PluginKind(self.kind), leaked(&self.id), "1", "x").options(options.leak())
    }
}

impl DescribedOption {
    fn spec(&self) -> OptionSpec {
        let default = match &self.default {
            serde_json::Value::Bool(value) => OptionDefault::Bool(*value),
            serde_json::Value::Number(value) if value.is_i64() => {
                OptionDefault::Integer(value.as_i64().unwrap())
            }
            serde_json::Value::Number(value) => OptionDefault::Float(value.as_f64().unwrap_or(f64::NAN)),
            serde_json::Value::Array(values) => {
                OptionDefault::TextList(texts(values.iter().map(ToString::to_string)).into())
            }
            other => OptionDefault::Text(leaked(&other.to_string()).into()),
        };
        OptionSpec {
            name: leaked(&self.name).into(),
            default,
            min: self.min.unwrap_or(f64::NEG_INFINITY),
            max: self.max.unwrap_or(f64::NAN),
            choices: texts(self.choices.iter().cloned()).into(),
            help: "".into(),
        }
    }
}

#[test]
fn plugin_description() {
    Target {
        name: "plugin-description",
        words: &[
            b"{",
            b"[",
            b"\"",
            b"\"kind\":",
            b"\"id\":",
            b"\"default\":",
            b"\\u0000",
            b"null",
            b"true",
            b"1e308",
        ],
        bytes_a_byte: 300,
        bytes: 1 << 18,
        read: |folder| {
            let Ok(text) = fs::read(folder.join("descriptors.json")) else { return };
            let Ok(described) = serde_json::from_slice::<Vec<Described>>(&text) else { return };
            let descriptors: Vec<Descriptor> = described.iter().map(Described::descriptor).collect();
            if let Err(refusal) = check_descriptors(&descriptors) {
                return readable(&refusal);
            }
            let table = fs::read(folder.join("options.json")).unwrap_or_default();
            let Ok(values) = serde_json::from_slice::<toml::Table>(&table) else { return };
            for descriptor in &descriptors {
                match resolve(descriptor, OptionTable { key: "optimizer", values: &values }) {
                    Err((_, refusal)) => readable(&refusal),
                    Ok(config) => assert_eq!(config.entries().len(), descriptor.options.len()),
                }
            }
        },
    }
    .fuzz();
}

/// A model as `sample` and `weights export` read it.
fn read_model(folder: &Path) {
    match SavedModel::open(folder) {
        Err(refusal) => readable(&refusal),
        Ok(model) => {
            let lengths = model.layout.specs.iter().map(|spec| spec.len());
            assert!(lengths.eq(model.values.iter().map(Vec::len)));
            if let Ok(tokenizer) = sample::tokenizer(&model.config.data) {
                let _ = tokenizer.encode("the");
            }
            let refusals = [model.state().map(drop), model.config_in_force().map(drop)];
            refusals.iter().filter_map(|read| read.as_ref().err()).for_each(readable);
        }
    }
}

#[test]
fn model() {
    Target {
        name: "model",
        words: &[
            b"{",
            b"[",
            b"\"",
            b"\"dtype\":\"F32\"",
            b"\"BF16\"",
            b"\"F64\"",
            b"\"shape\":[",
            b"\"data_offsets\":[0,4]",
            b"transformer.",
            b"_orig_mod.",
            b"model.wte.weight",
            b"h.0.",
            b"h.99999999999.",
            b"lm_head.weight",
            b".attn.bias",
            b"\xff\xff\xff\xff\xff\xff\xff\xff",
            b"n_layer = 1",
        ],
        bytes_a_byte: 1000,
        bytes: 1 << 18,
        read: read_model,
    }
    .fuzz();
}

#[test]
fn trajectory_log() {
    Target {
        name: "trajectory-log",
        words: &[b"{", b"[", b"\"", b"\"config\":", b"\"steps\":", b"\"ix\":", b"null", b"1e308", b"-"],
        bytes_a_byte: 100,
        bytes: 1 << 18,
        read: |folder| {
            if let Err(refusal) = Recording::read(&folder.join("log.json")) {
                readable(&refusal);
            }
        },
    }
    .fuzz();
}

#[test]
fn run_folder() {
    Target {
        name: "run-folder",
        words: &[
            b"\n",
            b",",
            b"\"",
            b"step,",
            b"NaN",
            b"inf",
            b"1e999",
            b" ",
            b"{",
            b"}",
            b"[",
            b"null",
            b"\"status\":",
            b"18446744073709551615",
            b"[[sink]]\n",
            b"path = \"../../x\"\n",
        ],
        bytes_a_byte: 1000,
        bytes: 8 << 20,
        read: |folder| {
            let found = find(&[folder.to_path_buf()]);
            assert!(found.left_out.iter().all(|left| !left.reason.is_empty()));
            let groups = groups(&found.runs);
            let comparison = Comparison::new(&found.runs, &groups, Choice::default());
            let of_groups = groups.iter().map(|group| group.runs.len() + group.repeated.len());
            assert_eq!(of_groups.sum::<usize>(), found.runs.len());
            for table in page::every_table(&found, &groups, &comparison) {
                assert!(table.rows.iter().all(|row| row.len() == table.columns.len()));
                let _ = (table.to_terminal(), table.to_markdown(), table.to_latex(), table.to_csv());
            }
        },
    }
    .fuzz();
}
