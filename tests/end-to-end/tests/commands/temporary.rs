//! Temporary files are removed when a command has ended: with success, with an error, or with
//! Ctrl-C.

use std::{
    fs,
    path::Path,
    process::{Command, Stdio},
};

use altgrad_end_to_end::{Bench, TINY, built, plugin, wait};

/// The content of a folder, by name.
fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut names: Vec<String> =
        entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

/// A bench with a folder for temporary files, a run file and a text.
fn bench() -> Bench {
    let bench = Bench::new();
    fs::create_dir(bench.path("tmp")).unwrap();
    bench.write("run.toml", TINY);
    bench.add_plugin(&plugin("e5m2.so"));
    bench.add_plugin(&plugin("adamw.so"));
    bench
}

#[test]
fn commands_leave_nothing_in_the_folder_for_temporary_files() {
    let bench = bench();
    fs::write(bench.path("cut.so"), &fs::read(plugin("e5m2.so")).unwrap()[..5000]).unwrap();
    let misbehaver = built("libaltgrad_fixture_misbehaver.so").display().to_string();
    let (e5m2, csv) = (plugin("e5m2.so").display().to_string(), plugin("csv.so").display().to_string());
    let commands: [(&[&str], i32); 11] = [
        (&["run", "run.toml", "--quiet", "--out", "run"], 0),
        (&["run", "run.toml", "--quiet", "--out", "bad", "--set", "quant.weight=E9M9"], 2),
        (&["report", "run", "--out", "r.html"], 0),
        (&["plugins", "check", &e5m2, "--only", "sqnr_law"], 0),
        (&["plugins", "check", "cut.so"], 3),
        // It hangs, and its process is stopped.
        (&["plugins", "check", &misbehaver, "--only", "kernel", "--timeout-s", "1"], 3),
        (&["plugins", "check", &csv], 0),
        (&["bench", "--size", "tiny", "--case", "fp32", "--steps", "1", "--warmup", "0"], 0),
        (&["bench", "--size", "tiny", "--case", "E9M9", "--steps", "1"], 2),
        (&["data", "prepare", "text", "--input", "corpus.txt", "--tokenizer", "byte", "--out", "data"], 0),
        (&["data", "prepare", "eurlex", "--input", "corpus.txt", "--out", "none/deep"], 2),
    ];
    let before = bench.contents();
    for (args, code) in commands {
        let temporary = bench.path("tmp").display().to_string();
        let outcome = bench.host_with(args, &[("TMPDIR", &temporary), ("ALTGRAD_MISBEHAVE", "hang")]);
        assert_eq!(outcome.code, code, "{args:?}: {}", outcome.stderr);
        assert_eq!(names(&bench.path("tmp")), [""; 0], "{args:?}");
    }
    let mut due: Vec<String> = ["data", "r.html", "run"].map(String::from).into();
    due.extend(before);
    due.sort();
    assert_eq!(bench.contents(), due);
}

/// Starts a command, waits until `begun`, and ends it with SIGTERM.
fn interrupted(bench: &Bench, args: &[&str], begun: impl Fn() -> bool) {
    let mut command = bench.command(args);
    let quiet = command.stdout(Stdio::null()).stderr(Stdio::null()).env("TMPDIR", bench.path("tmp"));
    let mut child = quiet.spawn().unwrap();
    wait(|| {
        assert!(child.try_wait().unwrap().is_none(), "{args:?} never began");
        begun()
    });
    assert!(Command::new("kill").args(["-TERM", &child.id().to_string()]).status().unwrap().success());
    assert_eq!(child.wait().unwrap().code(), Some(130), "{args:?}");
    assert_eq!(names(&bench.path("tmp")), [""; 0], "{args:?}");
}

#[test]
fn sigterm_leaves_nothing_behind_either() {
    let bench = bench();
    bench.write("long.txt", &"the quick brown fox jumps over the lazy dog\n".repeat(2_000_000));
    let before = bench.contents();
    let made = |folder: &'static str| {
        let path = bench.path(folder);
        move || names(&path).iter().any(|name| name.starts_with(".altgrad-"))
    };
    let steps = ["--size", "tiny", "--case", "fp32", "--steps", "1000000"];
    interrupted(&bench, &[&["bench"], &steps[..]].concat(), made("tmp"));
    let checkpoints = ["--checkpoint-every", "1"];
    interrupted(&bench, &[&["bench"], &steps[..], &checkpoints].concat(), made("."));
    let e5m2 = plugin("e5m2.so").display().to_string();
    interrupted(&bench, &["plugins", "check", &e5m2], made("tmp"));
    let part = bench.path("new/data/train.bin.part");
    let prepare = ["data", "prepare", "text", "--input", "long.txt", "--out", "new/data"];
    interrupted(&bench, &prepare, || part.exists());
    assert_eq!(bench.contents(), before);
}
