//! Bad input: each fault is one line with its place and a hint, the right exit code, and nothing half-written.

use std::fs;

use altgrad_end_to_end::{Bench, Outcome, TINY, plugin};
use insta::assert_snapshot;

/// The host's message when it refused with `code`: it has a hint, is no panic, and nothing was left behind.
#[track_caller]
fn refusal(bench: &Bench, outcome: &Outcome, code: i32) -> String {
    let stderr = &outcome.stderr;
    assert_eq!(outcome.code, code, "{stderr}");
    assert!(stderr.lines().any(|line| line.starts_with("error: ")), "expected an error:\n{stderr}");
    assert!(stderr.contains("\nhint: "), "expected a hint:\n{stderr}");
    let is_panic = stderr.contains("stack backtrace") || stderr.contains("RUST_BACKTRACE");
    assert!(!is_panic, "a panic got out:\n{stderr}");
    assert!(!bench.contents().contains(&"runs".to_string()), "a run folder was left behind");
    bench.redacted(stderr)
}

/// A bench with files that are no data for a run.
fn bench_with_bad_data() -> Bench {
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
    bench
}

/// Removes sizes: the memory of a run depends on the number of threads, the free memory on the machine.
fn without_sizes(text: &str) -> String {
    let word = |word: &str| if word.parse::<f64>().is_ok() { "[number]".into() } else { word.to_string() };
    let line = |line: &str| {
        let words = line.split(' ').map(word).collect::<Vec<_>>().join(" ");
        if line.contains("GiB of memory") { words } else { line.to_string() }
    };
    text.lines().map(|text| line(text) + "\n").collect()
}

#[test]
fn each_fault_of_a_run_file_is_placed_and_has_a_hint() {
    // A text of the tiny run file, and its replacement.
    let rows = [
        ("lr = 0.01", "lrr = 0.01"),
        ("lr = 0.01", "lr = \"fast\""),
        ("lr = 0.01", "lr = -0.01"),
        ("E5M2", "E4M4"),
        ("E5M2", "E5M2:posit"),
        ("name = \"adamw\"", "name = \"adam\""),
        ("name = \"adamw\"", "name = \"adamw\"\nbeta3 = 1"),
        ("name = \"adamw\"", "name = \"adamw\"\nbeta1 = 2"),
        ("name = \"adamw\"", "name = \"adamw\"\neps = \"x\""),
        ("text:corpus.txt", "text:gone.txt"),
        ("text:corpus.txt", "bins:gone"),
        ("text:corpus.txt", "text:empty.txt"),
        ("block_size = 8", "block_size = 5000"),
        ("text:corpus.txt", "text:bad-utf8.txt"),
        ("text:corpus.txt", "text:plugins"),
        ("n_embd = 8", "n_embd = 1000000"),
        ("text:corpus.txt", "bins:huge-vocab"),
        ("text:corpus.txt", "bins:beyond-vocab"),
        ("text:corpus.txt", "bins:odd"),
        ("device = \"cpu\"", "device = \"gpu\""),
        ("n_embd = 8", "n_embd = 9"),
        ("[quant]", "[quant]\nexclude = [\"nothing.*\"]"),
        ("n_layer = 1", "n_layer = 1\ninit = \"gone.safetensors\""),
        ("[run]", "[run"),
        ("lr = 0.01", "lr = 0.01\nschedule = \"constant\""),
        ("lr = 0.01", "lr = 0.01\nloss_scale = \"auto\""),
        ("[quant]", "[quant]\ngrad_rounding = \"stochastic\""),
        ("[quant]", "[quant]\nskip_first = 7"),
        ("[quant]", "[quant]\nscaling = { block = 16 }"),
        ("[quant]", "[quant]\nscaling = { window = 4 }"),
        ("[quant]", "[quant]\nblock = 32\nscaling = { granularity = \"channel\" }"),
        ("[quant]", "[quant]\nlayer = [{ match = \"*.attn.*\", weight = \"E3M5\" }]"),
        ("[quant]", "[quant]\ncast = { grad = { format = \"E5M2\", ste = \"clipped\" } }"),
        ("[quant]", "[quant]\nstored_scale = { rule = \"floating\" }"),
        ("[quant]", "[quant]\nschedule = [{ at = \"soon\", weight = \"none\" }]"),
        ("[quant]", "[observe]\nformats = [\"E4M3\"]\nroles = [\"nowhere\"]\n[quant]"),
        ("[quant]", "[shadow]\nevery = -1\n[quant]"),
        ("[quant]", "[metrics]\nevery = \"often\"\n[quant]"),
        ("[quant]", "[alerts]\nkurtosis = { threshold = 0 }\n[quant]"),
        ("[quant]", "[checkpoint]\nkeep = \"all\"\n[quant]"),
        ("[quant]", "[limits]\nstep_s = 1\n[quant]"),
        ("[quant]", "[plugins]\ndir = \"\"\n[quant]"),
        ("[quant]", "[[sink]]\nname = \"csv\"\nevery = 0\n[quant]"),
        ("[quant]", "[[sink]]\nname = \"cvs\"\n[quant]"),
        ("[quant]", "[[sink]]\nname = \"csv\"\npath = \"../out.csv\"\n[quant]"),
        ("name = \"tiny\"", "name = \"\""),
        ("[quant]", "[[optimizer.group]]\nmatch = \"nothing.*\"\nlr_scale = 2.0\n[quant]"),
        ("[quant]", "[optimizer.states]\nexp_avg = \"E9M9\"\n[quant]"),
        ("[quant]", "[[data.mixture]]\nweight = 1\n[quant]"),
        ("[quant]", "[quant]\nrecipe = \"nvfp5\""),
        ("[quant]", "[compare]\nbaseline = \"fp32\"\n[quant]"),
    ];
    let bench = bench_with_bad_data();
    let mut page = String::new();
    for (from, to) in rows {
        assert!(TINY.contains(from), "{from}");
        bench.write("tiny.toml", &TINY.replacen(from, to, 1));
        let said = refusal(&bench, &bench.host(&["run", "tiny.toml"]), 2);
        page += &format!("=== {}\n{}\n", to.replace('\n', "; "), without_sizes(&said));
    }
    assert_snapshot!("run_file_faults", page);
}

/// Four faults in three tables, and a folder that is in use. A wrong optimizer does not affect the check of its
/// options.
#[test]
fn check_reports_all_faults_at_once_and_the_folder_last() {
    let bench = Bench::new();
    bench.write("corpus.txt", "");
    let file = TINY
        .replace("lr = 0.01", "lr = -0.01\nlrr = 1")
        .replace("name = \"adamw\"", "name = \"adam\"\nbeta3 = 1")
        .replace("E5M2", "E4M4");
    bench.write("tiny.toml", &file);
    bench.write("taken/file", "");
    let outcome = bench.host(&["check", "tiny.toml", "--out", "taken"]);
    assert_eq!(outcome.code, 2, "{}", outcome.stderr);
    assert_snapshot!("all_faults", bench.redacted(&outcome.stderr));
}

#[test]
fn a_run_file_and_a_matrix_file_given_for_each_other_are_one_error() {
    let bench = Bench::new();
    bench.write("tiny.toml", TINY);
    bench.write("m.toml", "name = \"m\"\nbase = \"tiny.toml\"\n[axes]\nrun.seed = [1]\n");
    for (command, file, message) in [
        ("check", "m.toml", "this is a matrix file, not a run file\n  --> m.toml:2:1\n"),
        ("run", "m.toml", "this is a matrix file, not a run file\n  --> m.toml:2:1\n"),
        ("sweep", "tiny.toml", "this is a run file, not a matrix file\n  --> tiny.toml:"),
    ] {
        let said = refusal(&bench, &bench.host(&[command, file]), 2);
        assert!(said.contains(message) && said.matches("error:").count() == 1, "{command}: {said}");
    }
}

#[test]
fn check_says_what_a_sound_run_file_takes() {
    let bench = Bench::new();
    bench.write("tiny.toml", TINY);
    let outcome = bench.host(&["check", "tiny.toml"]);
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    let lines: Vec<&str> = outcome.stdout.lines().collect();
    let starts =
        ["tiny: ", "data: ", "plan: 6 steps of ", "memory: about ", "time: about ", "OK: tiny.toml can run"];
    assert_eq!(lines.len(), starts.len(), "{}", outcome.stdout);
    for (line, start) in lines.iter().zip(starts) {
        assert!(line.starts_with(start), "{line}");
    }
    assert!(!bench.contents().contains(&"runs".to_string()));
    let outcome = bench.host(&["check", "tiny.toml", "--set", "train.full_eval=end"]);
    assert!(outcome.stdout.contains(" for the whole split at the end\nOK"), "{}", outcome.stdout);
}

/// A key is missing, or has another form: the run can start, and the user is told before it does.
#[test]
fn a_wandb_sink_without_a_key_is_told_by_check_and_at_the_start() {
    let bench = Bench::new();
    let write = |more: &str| bench.write("tiny.toml", &format!("{TINY}[[sink]]\nname = \"wandb\"\n{more}"));
    write("finish_timeout_s = 0");
    let home = bench.path("").display().to_string();
    let host = |command: &str, key: &str| {
        let env = [
            ("WANDB_API_KEY", key),
            ("HOME", &home),
            ("NETRC", ""),
            ("WANDB_MODE", ""),
            ("WANDB_BASE_URL", ""),
        ];
        bench.host_with(&[command, "tiny.toml"], &env)
    };
    let check = host("check", "");
    assert_eq!(check.code, 0, "{}", check.stderr);
    assert_snapshot!(
        check.stderr,
        @"wandb: nothing is uploaded to https://api.wandb.ai: no API key: set WANDB_API_KEY, or write it into netrc for machine api.wandb.ai. A run keeps its rows on disk for `altgrad-host wandb-upload`"
    );
    assert!(host("check", "short").stderr.contains("what WANDB_API_KEY holds is not an API key"));
    assert!(!host("check", &"k".repeat(40)).stderr.contains("wandb"));
    let run = host("run", "");
    assert_eq!(run.stderr.matches("no API key").count(), 2, "at the start and at the end: {}", run.stderr);
    let start = run.stderr.lines().next().unwrap_or_default();
    assert!(check.stderr.contains(start) && start.starts_with("wandb: "), "{}", run.stderr);
    write("mode = \"offline\"");
    assert!(!host("check", "").stderr.contains("wandb"));
}

#[test]
fn each_fault_of_a_command_line_is_placed_and_has_a_hint() {
    let bench = Bench::new();
    bench.write("tiny.toml", TINY);
    bench.write("file", "");
    let commands: [&[&str]; 4] = [
        &["run", "gone.toml"],
        &["run", "tiny.toml", "--set", "train.lr=-1"],
        &["run", "tiny.toml", "--out", "file"],
        &["plugins", "list", "--dir", "gone"],
    ];
    let mut page = String::new();
    for command in commands {
        page += &format!("=== {}\n{}\n", command.join(" "), refusal(&bench, &bench.host(command), 2));
    }
    assert_snapshot!("command_line_faults", page);
    assert_eq!(bench.host(&["run", "tiny.toml", "--max-steps", "0"]).code, 2);
    assert_eq!(bench.host(&["fly"]).code, 2);
}

#[test]
fn a_number_of_threads_that_is_none_is_refused() {
    let bench = Bench::new();
    bench.write("tiny.toml", TINY);
    let check = |threads| bench.host_with(&["check", "tiny.toml"], &[("RAYON_NUM_THREADS", threads)]);
    assert_snapshot!(refusal(&bench, &check("two"), 2), @r#"
    error: RAYON_NUM_THREADS must be a number of threads, found "two"
      --> the environment
    hint: unset RAYON_NUM_THREADS for one thread per core, or set it to 1 or more
    "#);
    assert_eq!((check("2").code, check("").code), (0, 0));
}

/// A text of one character has no training split, and is not empty.
#[test]
fn a_text_of_one_character_is_short() {
    let bench = Bench::new();
    bench.write("corpus.txt", "a");
    bench.write("tiny.toml", TINY);
    assert_snapshot!(refusal(&bench, &bench.host(&["check", "tiny.toml", "--set", "data.block_size=4"]), 2), @r"
    error: the training split has 0 tokens, `data.block_size` = 4 needs at least 5
      --> --set data.block_size=4 (corpus.txt)
    hint: use a larger corpus or a smaller block_size
    ");
}

#[test]
fn large_numbers_are_as_short_as_they_were_written() {
    let bench = Bench::new();
    bench.write("tiny.toml", TINY);
    let rates = ["--set", "train.lr=1e36", "--set", "train.min_lr=1e37"];
    let refused = bench.host(&[&["check", "tiny.toml"], &rates[..]].concat());
    assert!(
        refusal(&bench, &refused, 2).contains("`train.min_lr` (1e37) must not be above `train.lr` (1e36)")
    );
    let accepted = bench.host(&[&["check", "tiny.toml"], &rates[..2]].concat());
    assert!(accepted.code == 0 && !accepted.stdout.contains("000000000"), "{}", accepted.stdout);
}

/// The remedy names the keys whose product the transform must divide.
#[test]
fn a_transform_that_does_not_divide_the_tokens_names_their_keys() {
    let bench = Bench::new();
    let file = TINY
        .replace("weight = \"E5M2\"", "recipe = \"nvfp4\"\nskip_last = 0")
        .replace("block_size = 8\nbatch_size = 2", "block_size = 7\nbatch_size = 1")
        .replace("n_embd = 8", "n_embd = 32");
    bench.write("tiny.toml", &file);
    let refused = refusal(&bench, &bench.host(&["check", "tiny.toml"]), 2);
    let remedy = "hint: choose `data.batch_size` and `data.block_size` whose product is a multiple of 16";
    assert!(refused.contains("does not divide the 7 elements") && refused.contains(remedy), "{refused}");
}

#[test]
fn a_device_that_is_missing_ends_the_run_with_its_own_exit_code() {
    let bench = Bench::new();
    bench.write("tiny.toml", TINY);
    let said = refusal(&bench, &bench.host(&["run", "tiny.toml", "--device", "cuda:7"]), 4);
    // Why, and the hint, depend on the build's features.
    assert!(said.starts_with("error: device `cuda:7` is not available: "), "{said}");
    assert!(said.contains("--> --device cuda:7"), "{said}");
}

#[test]
fn an_occupied_run_folder_is_not_touched() {
    let bench = Bench::new();
    bench.write("tiny.toml", TINY);
    bench.write("runs/tiny/metrics.csv", "precious");
    let outcome = bench.host(&["run", "tiny.toml"]);
    assert_eq!(outcome.code, 2);
    assert_snapshot!(outcome.stderr, @"
    error: the run folder is not empty
      --> runs/tiny
    hint: runs never overwrite each other: use `--out DIR`, or delete the folder
    ");
    assert_eq!(bench.read("runs/tiny/metrics.csv"), "precious");
    assert_eq!(fs::read_dir(bench.path("runs/tiny")).unwrap().count(), 1);
}

/// A bench with its own plugin folder, holding the plugins of a tiny run except `without`.
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

/// The tiny run with its own plugin folder.
fn own_folder() -> String {
    format!("{TINY}\n[plugins]\ndir = \"plugins\"\n")
}

/// The same with a list of libraries.
fn listed(libraries: &str) -> String {
    format!("{}load = {libraries}\n", own_folder())
}

#[test]
fn a_deleted_library_is_named_with_the_place_that_needs_it() {
    let bench = bench_without("e5m2.so", &own_folder());
    assert_snapshot!(refusal(&bench, &bench.host(&["run", "tiny.toml"]), 2), @"
    error: unknown format `E5M2` at `quant.weight`
      --> tiny.toml:24:10
    hint: no format is available; looked in [scratch]/plugins (it holds adamw.so, csv.so)
    ");

    let bench = bench_without("e5m2.so", &listed(r#"["e5m2", "adamw"]"#));
    assert_snapshot!(refusal(&bench, &bench.host(&["run", "tiny.toml"]), 3), @"
    error: plugin library `e5m2` not found
      --> looked for e5m2.so and libe5m2.so in [scratch]/plugins
    hint: it holds adamw.so, csv.so
    ");
}

#[test]
fn damaged_and_foreign_libraries_are_refused_with_what_is_wrong() {
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
        for command in [&["run", "tiny.toml"][..], &["plugins", "inspect", "plugins/broken.so"]] {
            // Sizes in the rest of the message are the build's.
            let said = refusal(&bench, &bench.host(command), 3);
            let first = said.lines().find(|line| line.starts_with("error: ")).unwrap();
            assert!(first.contains(message), "{name}: {said}");
            assert!(said.contains("plugins/broken.so"), "{name}: {said}");
        }
    }
}

#[test]
fn a_broken_library_in_the_folder_counts_only_when_it_is_needed() {
    let bench = bench_without("", &own_folder());
    bench.write("plugins/other.so", "not a library");
    let outcome = bench.host(&["run", "tiny.toml", "--quiet"]);
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    let said = "other.so: plugin library refused: the file is not a shared library (no ELF header)";
    assert!(outcome.stderr.contains(said), "{}", outcome.stderr);

    let bench = bench_without("e5m2.so", &own_folder());
    bench.write("plugins/e5m2.so", "not a library");
    assert_snapshot!(refusal(&bench, &bench.host(&["run", "tiny.toml"]), 3), @"
     WARN [scratch]/plugins/e5m2.so: plugin library refused: the file is not a shared library (no ELF header)
    error: unknown format `E5M2` at `quant.weight`
      --> tiny.toml:24:10
    hint: no format is available; looked in [scratch]/plugins (it holds adamw.so, csv.so, e5m2.so); [scratch]/plugins/e5m2.so: plugin library refused: the file is not a shared library (no ELF header); a plugin is a `cdylib` built by cargo; see `plugins inspect`
    ");
}

#[test]
fn two_libraries_with_the_same_plugin_are_refused() {
    let bench = bench_without("", &listed(r#"["e5m2", "adamw", "copy"]"#));
    fs::copy(plugin("e5m2.so"), bench.path("plugins/copy.so")).unwrap();
    assert_snapshot!(refusal(&bench, &bench.host(&["run", "tiny.toml"]), 3), @"
    error: two libraries export the format `E5M2` at `quant.weight`
      --> tiny.toml:24:10 ([scratch]/plugins/e5m2.so and [scratch]/plugins/copy.so)
    hint: remove one, or list the one you want in `plugins.load`
    ");
}

#[test]
fn a_wrong_pin_is_refused_and_the_right_one_is_told() {
    let pin = "0".repeat(64);
    let run_file = listed(&format!(r#"[{{ path = "e5m2", sha256 = "{pin}" }}, "adamw"]"#));
    let bench = bench_without("", &run_file);
    let outcome = bench.host(&["run", "tiny.toml"]);
    assert_snapshot!(refusal(&bench, &outcome, 3), @r#"
    error: plugin library refused: its sha256 is not the pinned 000000000000...
      --> [scratch]/plugins/e5m2.so
    hint: if the new build is meant, pin sha256 = "[sha256]"
    "#);
    let own = outcome.stderr.split("sha256 = \"").nth(1).unwrap().split('"').next().unwrap();
    bench.write("tiny.toml", &run_file.replace(&pin, own));
    assert_eq!(bench.host(&["run", "tiny.toml", "--quiet"]).code, 0);
}
