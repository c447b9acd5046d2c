//! Bad input: each fault is one line with its place and a hint, the right exit code, and nothing half-written.

use std::fs;

use altgrad_end_to_end::{Bench, Outcome, TINY, built, plugin};

/// The host refused with `code`, said `message` (and `place`, if given) and left nothing behind.
#[track_caller]
fn refused(bench: &Bench, outcome: &Outcome, code: i32, message: &str, place: &str) {
    let stderr = &outcome.stderr;
    assert_eq!(outcome.code, code, "{stderr}");
    let first = stderr.lines().find(|line| line.starts_with("error: ")).unwrap_or_default();
    assert!(first.contains(message), "expected `{message}` in one line:\n{stderr}");
    assert!(stderr.contains(place), "expected the place `{place}`:\n{stderr}");
    assert!(stderr.contains("\nhint: "), "expected a hint:\n{stderr}");
    assert!(
        !stderr.contains("stack backtrace") && !stderr.contains("RUST_BACKTRACE"),
        "a panic got out:\n{stderr}"
    );
    assert!(!bench.contents().contains(&"runs".to_string()), "a run folder was left behind");
}

#[test]
fn faults_of_the_run_file() {
    // (what to replace, by what, message, place)
    let rows = [
        ("lr = 0.01", "lrr = 0.01", "unknown key `train.lrr`", "tiny.toml:16:1"),
        ("lr = 0.01", "lr = \"fast\"", "`train.lr` must be", "tiny.toml:16:6"),
        ("lr = 0.01", "lr = -0.01", "`train.lr` must be positive", "tiny.toml:16:6"),
        ("E5M2", "E4M4", "unknown format `E4M4` at `quant.weight`", "tiny.toml:24:10"),
        ("E5M2", "E5M2:posit", "variant must be one of", "tiny.toml:24:10"),
        ("name = \"adamw\"", "name = \"adam\"", "unknown optimizer `adam`", "tiny.toml:22:8"),
        (
            "name = \"adamw\"",
            "name = \"adamw\"\nbeta3 = 1",
            "unknown key `optimizer.beta3`",
            "tiny.toml:23:9",
        ),
        ("name = \"adamw\"", "name = \"adamw\"\nbeta1 = 2", "`optimizer.beta1` must be", "tiny.toml:23:9"),
        ("name = \"adamw\"", "name = \"adamw\"\neps = \"x\"", "`optimizer.eps` must be", "tiny.toml:23:7"),
        ("text:corpus.txt", "text:gone.txt", "cannot read the text file", "gone.txt"),
        ("text:corpus.txt", "bins:gone", "cannot read the token bin", "gone/train.bin"),
        ("text:corpus.txt", "text:empty.txt", "the corpus is empty", "tiny.toml:6:11"),
        ("block_size = 8", "block_size = 5000", "`data.block_size` = 5000", "tiny.toml:6:11"),
        ("text:corpus.txt", "text:bad-utf8.txt", "is not UTF-8", "bad-utf8.txt"),
        ("text:corpus.txt", "text:plugins", "not a regular file", "plugins"),
        ("n_embd = 8", "n_embd = 1000000", "GiB of memory", "tiny.toml"),
        ("text:corpus.txt", "bins:huge-vocab", "vocab_size must be from 1 to 65536", "huge-vocab/meta.json"),
        (
            "text:corpus.txt",
            "bins:beyond-vocab",
            "token id 7 is beyond the vocabulary of 5",
            "beyond-vocab/train.bin",
        ),
        ("text:corpus.txt", "bins:odd", "odd number of bytes", "odd/train.bin"),
        ("device = \"cpu\"", "device = \"gpu\"", "`run.device` must be", "tiny.toml:4:10"),
        ("n_embd = 8", "n_embd = 9", "n_embd", "tiny.toml:12:10"),
        (
            "[quant]",
            "[quant]\nexclude = [\"nothing.*\"]",
            "matches no linear layer's weight",
            "tiny.toml:24:12",
        ),
        (
            "n_layer = 1",
            "n_layer = 1\ninit = \"gone.safetensors\"",
            "cannot read the weights",
            "gone.safetensors",
        ),
    ];
    for (from, to, message, place) in rows {
        let bench = Bench::new();
        bench.write("empty.txt", "");
        bench.write("plugins/none", "");
        for (folder, vocab, bytes) in
            [("huge-vocab", "1000000000000", 200), ("beyond-vocab", "5", 200), ("odd", "9", 201)]
        {
            bench.write(&format!("{folder}/meta.json"), &format!("{{\"vocab_size\": {vocab}}}"));
            for bin in ["train.bin", "val.bin"] {
                // 0x0007 again and again.
                let tokens: Vec<u8> = (0..bytes).map(|at| if at % 2 == 0 { 7 } else { 0 }).collect();
                fs::write(bench.path(folder).join(bin), tokens).unwrap();
            }
        }
        fs::write(bench.path("bad-utf8.txt"), [b'a', 0xff, b'b']).unwrap();
        assert!(TINY.contains(from), "{from}");
        bench.write("tiny.toml", &TINY.replacen(from, to, 1));
        refused(&bench, &bench.host(&["run", "tiny.toml"]), 2, message, place);
    }
}

#[test]
fn faults_of_the_command_line() {
    let bench = Bench::new();
    bench.write("tiny.toml", TINY);
    refused(&bench, &bench.host(&["run", "gone.toml"]), 2, "cannot read the run file", "gone.toml");
    let set = bench.host(&["run", "tiny.toml", "--set", "train.lr=-1"]);
    refused(&bench, &set, 2, "`train.lr` must be positive", "--set train.lr=-1");
    assert_eq!(bench.host(&["run", "tiny.toml", "--max-steps", "0"]).code, 2);
    assert_eq!(bench.host(&["fly"]).code, 2);
    bench.write("file", "");
    refused(
        &bench,
        &bench.host(&["run", "tiny.toml", "--out", "file"]),
        2,
        "the run folder cannot be used",
        "file",
    );
    refused(
        &bench,
        &bench.host(&["plugins", "list", "--dir", "gone"]),
        2,
        "the plugin folder does not exist",
        "gone",
    );
}

#[test]
fn a_device_that_is_not_there() {
    let bench = Bench::new();
    bench.write("tiny.toml", TINY);
    let outcome = bench.host(&["run", "tiny.toml", "--device", "cuda:7"]);
    refused(&bench, &outcome, 4, "device `cuda:7` is not available", "--device cuda:7");
}

#[test]
fn an_occupied_run_folder_is_not_touched() {
    let bench = Bench::new();
    bench.write("tiny.toml", TINY);
    bench.write("runs/tiny/metrics.csv", "precious");
    let outcome = bench.host(&["run", "tiny.toml"]);
    assert_eq!(outcome.code, 2);
    assert!(outcome.stderr.contains("the run folder is not empty"), "{}", outcome.stderr);
    assert_eq!(bench.read("runs/tiny/metrics.csv"), "precious");
    assert_eq!(fs::read_dir(bench.path("runs/tiny")).unwrap().count(), 1);
}

/// A bench with its own plugin folder, holding what a tiny run needs but for `without`.
fn bench_without(without: &str, run_file: &str) -> Bench {
    let bench = Bench::new();
    for name in ["e5m2.so", "adamw.so", "csv.so"] {
        if name != without {
            bench.add_plugin(&plugin(name));
        }
    }
    bench.write("tiny.toml", run_file);
    bench
}

/// The tiny run with its own plugin folder and a list of libraries.
fn listed(libraries: &str) -> String {
    format!("{TINY}\n[plugins]\ndir = \"plugins\"\nload = {libraries}\n")
}

#[test]
fn a_deleted_library_is_missed_by_name_and_place() {
    let own = format!("{TINY}\n[plugins]\ndir = \"plugins\"\n");
    let bench = bench_without("e5m2.so", &own);
    let outcome = bench.host(&["run", "tiny.toml"]);
    refused(&bench, &outcome, 2, "unknown format `E5M2` at `quant.weight`", "tiny.toml:24:10");
    let looked_in = bench.path("plugins").display().to_string();
    assert!(outcome.stderr.contains(&looked_in) && outcome.stderr.contains("adamw.so"), "{}", outcome.stderr);

    let bench = bench_without("e5m2.so", &listed(r#"["e5m2", "adamw"]"#));
    let outcome = bench.host(&["run", "tiny.toml"]);
    let looked_in = format!("looked for e5m2.so and libe5m2.so in {}", bench.path("plugins").display());
    refused(&bench, &outcome, 3, "plugin library `e5m2` not found", &looked_in);
}

#[test]
fn files_that_are_no_sound_library() {
    let sound = fs::read(plugin("e5m2.so")).unwrap();
    let mut foreign = sound.clone();
    foreign[18] = 0xb7; // e_machine: AArch64
    let rows: [(&str, &[u8], &str); 6] = [
        ("empty", b"", "the file is empty"),
        ("text", b"I am a text file\n", "not a shared library (no ELF header)"),
        ("cut-in-half", &sound[..sound.len() / 2], "cut short"),
        ("cut-by-a-byte", &sound[..sound.len() - 1], "cut short"),
        ("cut-in-header", &sound[..40], "cut short"),
        ("foreign", &foreign, "for another machine"),
    ];
    for (name, bytes, message) in rows {
        let bench = bench_without("e5m2.so", &listed(r#"["broken", "adamw"]"#));
        fs::write(bench.path("plugins/broken.so"), bytes).unwrap();
        refused(&bench, &bench.host(&["run", "tiny.toml"]), 3, message, "plugins/broken.so");
        let inspected = bench.host(&["plugins", "inspect", "plugins/broken.so"]);
        refused(&bench, &inspected, 3, message, "plugins/broken.so");
        println!("{name}: refused");
    }
}

#[test]
fn a_broken_library_in_the_folder_counts_only_when_it_is_needed() {
    let own = format!("{TINY}\n[plugins]\ndir = \"plugins\"\n");
    let bench = bench_without("", &own);
    bench.write("plugins/other.so", "not a library");
    let outcome = bench.host(&["run", "tiny.toml", "--quiet"]);
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    assert!(outcome.stderr.contains("other.so"), "it is mentioned: {}", outcome.stderr);

    let bench = bench_without("e5m2.so", &own);
    bench.write("plugins/e5m2.so", "not a library");
    let outcome = bench.host(&["run", "tiny.toml"]);
    refused(&bench, &outcome, 3, "unknown format `E5M2`", "plugins/e5m2.so");
}

#[test]
fn libraries_without_plugins_twice_the_same_name_and_wrong_pins() {
    let bench = bench_without("", &listed(r#"["e5m2", "adamw", "copy"]"#));
    fs::copy(plugin("e5m2.so"), bench.path("plugins/copy.so")).unwrap();
    refused(
        &bench,
        &bench.host(&["run", "tiny.toml"]),
        3,
        "two libraries export the format `E5M2`",
        "copy.so",
    );

    let pin = "0".repeat(64);
    let run_file = listed(&format!(r#"[{{ path = "e5m2", sha256 = "{pin}" }}, "adamw"]"#));
    let bench = bench_without("", &run_file);
    let outcome = bench.host(&["run", "tiny.toml"]);
    refused(&bench, &outcome, 3, "its sha256 is not the pinned", "plugins/e5m2.so");
    let own = outcome.stderr.split("sha256 = \"").nth(1).unwrap().split('"').next().unwrap();
    bench.write("tiny.toml", &run_file.replace(&pin, own));
    assert_eq!(bench.host(&["run", "tiny.toml", "--quiet"]).code, 0);
}

/// The tiny run with every plugin the panicking one.
fn panicking_run() -> String {
    let run_file = TINY.replace("E5M2", "BAD8").replace("\"adamw\"", "\"bad\"");
    format!("{run_file}\n[plugins]\ndir = \"plugins\"\n[[sink]]\nname = \"bad\"\n")
}

fn panicking_bench() -> Bench {
    let bench = Bench::new();
    bench.add_plugin(&built("libaltgrad_fixture_panicker.so"));
    bench.write("tiny.toml", &panicking_run());
    bench
}

#[test]
fn the_panicking_plugins_work_while_nobody_asks_them_to_panic() {
    let outcome = panicking_bench().host(&["run", "tiny.toml", "--quiet"]);
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
}

#[test]
fn panics_before_the_run_refuse_it() {
    let calls = ["format.new", "format.spec", "optimizer.new", "optimizer.states", "sink.new", "sink.open"];
    for call in calls {
        let bench = panicking_bench();
        let outcome = bench.host_with(&["run", "tiny.toml"], &[("ALTGRAD_PANIC_IN", call)]);
        let method = call.split('.').nth(1).unwrap();
        let message = format!("panicked in `{method}` at tests/fixtures/panicker/src/lib.rs");
        refused(&bench, &outcome, 3, &message, "libaltgrad_fixture_panicker.so");
    }
}

#[test]
fn panics_while_the_library_describes_itself_refuse_the_library() {
    for call in ["format.descriptor", "optimizer.descriptor", "sink.descriptor"] {
        let bench = panicking_bench();
        let outcome = bench.host_with(
            &["plugins", "inspect", "plugins/libaltgrad_fixture_panicker.so"],
            &[("ALTGRAD_PANIC_IN", call)],
        );
        refused(&bench, &outcome, 3, "panicked in `descriptor`", "libaltgrad_fixture_panicker.so");
    }
}

#[test]
fn panics_and_errors_in_a_step_fail_the_run_and_say_so() {
    for call in ["format.fake_quant", "optimizer.step", "format.fake_quant:error", "optimizer.step:error"] {
        let bench = panicking_bench();
        let outcome = bench.host_with(&["run", "tiny.toml", "--quiet"], &[("ALTGRAD_PANIC_IN", call)]);
        assert_eq!(outcome.code, 1, "{call}: {}", outcome.stderr);
        let said = outcome.stderr.lines().next().unwrap();
        assert!(said.starts_with("error: ") && said.contains("plugin `"), "{call}: {said}");
        assert!(outcome.stderr.contains("libaltgrad_fixture_panicker.so"), "{call}: {}", outcome.stderr);
        let status = bench.read("runs/tiny/run.json");
        assert!(status.contains("\"status\": \"failed\""), "{call}: {status}");
    }
}

#[test]
fn a_failing_sink_costs_its_records_and_not_the_training() {
    let calls =
        ["sink.log", "sink.log:error", "sink.alert", "sink.summary", "sink.finish", "sink.finish:error"];
    for call in calls {
        let bench = panicking_bench();
        let outcome = bench.host_with(&["run", "tiny.toml", "--quiet"], &[("ALTGRAD_PANIC_IN", call)]);
        assert_eq!(outcome.code, 1, "{call}: {}", outcome.stderr);
        assert!(outcome.stderr.contains("sink plugin `bad`"), "{call}: {}", outcome.stderr);
        let status = bench.read("runs/tiny/run.json");
        assert!(status.contains("\"status\": \"completed\"") && status.contains("\"steps\": 6"), "{status}");
        assert!(bench.path("runs/tiny/weights.safetensors").is_file());
    }
}

#[test]
fn a_panicking_destructor_stays_in_the_library() {
    let outcome =
        panicking_bench().host_with(&["run", "tiny.toml", "--quiet"], &[("ALTGRAD_PANIC_IN", "drop")]);
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
}
