//! Output of commands: what is lost ends with exit code 1, links and devices stay, and sinks keep off the host's files.

use std::{
    fs,
    process::{Command, Stdio},
};

use altgrad_end_to_end::{Bench, TINY};

/// A bench with a finished run in `runs/tiny`, which has one csv sink.
fn trained() -> Bench {
    let bench = Bench::new();
    bench.write("tiny.toml", &format!("{TINY}[[sink]]\nname = \"csv\"\n"));
    let outcome = bench.host(&["run", "tiny.toml", "--quiet"]);
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    bench.write("values", &"abcd".repeat(16));
    bench
}

/// Commands that print and succeed.
const PRINTING: [&[&str]; 19] = [
    &["compare", "runs/tiny"],
    &["compare", "runs/tiny", "--json"],
    &["evaluate", "runs/tiny"],
    &["evaluate", "runs/tiny", "--json"],
    &["sample", "runs/tiny", "--prompt", "the", "--tokens", "3"],
    &["alerts", "evaluate", "runs/tiny"],
    &["top", "--once", "runs/tiny"],
    &["report", "runs/tiny", "--out", "report.html"],
    &["formats", "table", "E4M3"],
    &["formats", "show", "E4M3"],
    &["casts", "show", "tiny.toml"],
    &["diff", "tiny.toml", "tiny.toml", "--steps", "1"],
    &["weights", "export", "tiny.toml", "--to", "w.safetensors"],
    &["check", "tiny.toml", "--out", "free"],
    &["run", "tiny.toml", "--out", "other"],
    &["reference", "metrics"],
    &["completions", "bash"],
    &["--version"],
    &["run", "--help"],
];

#[test]
#[cfg(target_os = "linux")]
fn lost_output_is_no_success_and_a_closed_pipe_is_no_failure() {
    let bench = trained();
    for args in PRINTING {
        let full = fs::File::options().write(true).open("/dev/full").unwrap();
        let output = bench.command(args).stdout(full).stderr(Stdio::piped()).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{args:?}: {said}");
        assert!(said.contains("a part of the output is lost (No space left on device"), "{args:?}: {said}");
        let _ = fs::remove_dir_all(bench.path("other"));
        // The reader is gone before the command begins.
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let output = bench.command(args).stdout(writer).stderr(Stdio::piped()).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(0), "{args:?}: {said}");
        let _ = fs::remove_dir_all(bench.path("other"));
    }
}

/// Commands that write a file that the user names last.
const WRITING: [&[&str]; 5] = [
    &["report", "runs/tiny", "--out"],
    &["weights", "export", "runs/tiny", "--to"],
    &["formats", "show", "E4M3", "--svg"],
    &["formats", "quantize", "E4M3", "--input", "values", "--output"],
    &[
        "casts", "apply", "--cast", "E4M3", "--shape", "4,4", "--axis", "rows", "--input", "values",
        "--output",
    ],
];

#[test]
#[cfg(unix)]
fn links_and_devices_that_are_written_stay() {
    use std::os::unix::fs::{FileTypeExt, symlink};
    let bench = trained();
    symlink("/dev/null", bench.path("null")).unwrap();
    for (index, args) in WRITING.iter().enumerate() {
        let (link, target) = (format!("link{index}"), format!("target{index}"));
        bench.write(&target, "before");
        symlink(&target, bench.path(&link)).unwrap();
        for to in [link.as_str(), "null"] {
            let outcome = bench.host(&[*args, &[to][..]].concat());
            assert_eq!(outcome.code, 0, "{args:?} {to}: {}", outcome.stderr);
            assert!(bench.path(to).is_symlink(), "{args:?} {to}");
        }
        assert_ne!(fs::read(bench.path(&target)).unwrap(), b"before", "{args:?}");
    }
    assert!(fs::metadata("/dev/null").unwrap().file_type().is_char_device());
    let fifo = bench.path("fifo");
    assert!(Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    let reader = std::thread::spawn({
        let fifo = fifo.clone();
        move || fs::read(fifo)
    });
    let outcome = bench.host(&["report", "runs/tiny", "--out", "fifo"]);
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    assert!(fs::metadata(fifo).unwrap().file_type().is_fifo());
    assert_eq!(reader.join().unwrap().unwrap(), fs::read(bench.path("target0")).unwrap());
}

#[test]
fn sinks_keep_off_the_files_of_the_host() {
    let bench = Bench::new();
    bench.write("tiny.toml", &format!("{TINY}[[sink]]\nname = \"csv\"\n"));
    let names = [
        "run.json",
        "config.toml",
        "events.jsonl",
        "weights.safetensors",
        "profile.json",
        "checkpoints/x",
        ".lock",
    ];
    let options = [("csv", "path"), ("csv", "layers_path"), ("tensorboard", "folder"), ("wandb", "folder")];
    for (sink, option) in options {
        for name in names {
            let sets = [format!("sink.0.name={sink}"), format!("sink.0.{option}=./{name}")];
            let outcome = bench.host(&["run", "tiny.toml", "--quiet", "--set", &sets[0], "--set", &sets[1]]);
            assert_eq!(outcome.code, 2, "{sets:?}: {}", outcome.stderr);
            assert!(outcome.stderr.contains("which the host writes"), "{sets:?}: {}", outcome.stderr);
            assert!(!bench.path("runs").exists(), "{sets:?}");
        }
    }
}
