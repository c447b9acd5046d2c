//! Libraries that are overwritten while a run uses them: the run continues unchanged, because the loaded library is a
//! copy.

use std::{
    fs::{self, File},
    path::Path,
    process::{Child, Command, Stdio},
};

use altgrad_end_to_end::{Bench, TINY, assert_same_run, compile_c, plugin, skipped, started_by, wait};

/// The loader's log message when it cannot load sealed memory.
const FALLBACK: &str = "sealed memory cannot be loaded";
/// Environments in which it cannot: arguments of `unshare`, and commands before the host starts.
const WITHOUT_SEALED_MEMORY: [(&[&str], &str); 2] = [
    // Memory files cannot be named.
    (&["-Urm"], "mount -t tmpfs none /proc"),
    // The system makes none that can be executed.
    (&["-pf", "--mount-proc"], "echo 2 >/proc/sys/vm/memfd_noexec"),
];

/// A bench with a run of some seconds and its own copies of the libraries, one of them in C if there is a compiler.
fn bench() -> (Bench, Vec<&'static str>) {
    let bench = Bench::new();
    let mut libraries = vec!["e5m2.so", "adamw.so", "csv.so"];
    for library in &libraries {
        bench.add_plugin(&plugin(library));
    }
    let mut run = TINY.replace("max_steps = 6", "max_steps = 600");
    let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/format-c/int8.c");
    match compile_c(&example, &bench.path("plugins/c.so")) {
        Ok(()) => {
            libraries.push("c.so");
            run += "activation = \"INT8-C\"\n";
        }
        Err(why) => skipped("the library in C of overwritten.rs", &why),
    }
    bench.write("run.toml", &(run + "[plugins]\ndir = \"plugins\"\n[[sink]]\nname = \"csv\"\n"));
    fs::create_dir(bench.path("tmp")).unwrap();
    (bench, libraries)
}

/// Starts the run in its environment, overwrites its libraries, waits for its end, and returns its log.
fn run_overwritten(bench: &Bench, libraries: &[&str], around: Option<(&[&str], &str)>) -> String {
    let host = bench.command(&["run", "run.toml", "--quiet", "--out", "overwritten"]);
    let mut command = match around {
        Some(around) => inside(around, &host),
        None => host,
    };
    command
        .current_dir(bench.path(""))
        .env("ALTGRAD_LOG", "altgrad_loader=debug")
        .env("TMPDIR", bench.path("tmp"));
    let mut child = command.stderr(File::create(bench.path("stderr")).unwrap()).spawn().unwrap();
    wait_for_rows(bench, &mut child);
    for library in libraries {
        // As `cp` does: the same file, truncated and rewritten.
        fs::write(bench.path("plugins").join(library), "").unwrap();
        fs::copy(plugin("tensorboard.so"), bench.path("plugins").join(library)).unwrap();
    }
    assert!(child.try_wait().unwrap().is_none(), "the run ended before its libraries were overwritten");
    assert_eq!(fs::read_dir(bench.path("tmp")).unwrap().count(), 0, "copies are left behind");
    let status = child.wait().unwrap();
    let said = bench.read("stderr");
    assert!(status.success(), "{status}: {said}");
    said
}

/// A command in other surroundings.
fn inside((unshare, before): (&[&str], &str), command: &Command) -> Command {
    let script = format!("{before} && exec \"$0\" \"$@\"");
    started_by(&[&["unshare"], unshare, &["sh", "-c", &script]].concat(), command)
}

/// Waits until the run has written rows of metrics.
fn wait_for_rows(bench: &Bench, child: &mut Child) {
    wait(|| {
        assert!(child.try_wait().unwrap().is_none(), "the run ended: {}", bench.read("stderr"));
        let rows = fs::read_to_string(bench.path("overwritten/metrics.csv")).unwrap_or_default();
        rows.lines().count() >= 2
    });
}

#[test]
fn libraries_overwritten_during_a_run_change_nothing() {
    let (bench, libraries) = bench();
    let whole = bench.host(&["run", "run.toml", "--quiet", "--out", "whole"]);
    assert_eq!(whole.code, 0, "{}", whole.stderr);
    let said = run_overwritten(&bench, &libraries, None);
    assert!(!said.contains(FALLBACK), "{said}");
    assert_same_run(&bench, "whole", "overwritten");
}

#[test]
#[ignore = "--all: other limits of the system"]
fn without_sealed_memory_a_private_copy_is_loaded() {
    for around in WITHOUT_SEALED_MEMORY {
        let probe = inside(around, &Command::new("true")).stderr(Stdio::null()).status();
        if !probe.is_ok_and(|status| status.success()) {
            let why = format!("`unshare {}` and `{}` are not allowed", around.0.join(" "), around.1);
            skipped("without_sealed_memory_a_private_copy_is_loaded", &why);
            continue;
        }
        let (bench, libraries) = bench();
        let whole = bench.host(&["run", "run.toml", "--quiet", "--out", "whole"]);
        assert_eq!(whole.code, 0, "{}", whole.stderr);
        let said = run_overwritten(&bench, &libraries, Some(around));
        assert_eq!(said.matches(FALLBACK).count(), libraries.len(), "{said}");
        assert_same_run(&bench, "whole", "overwritten");
    }
}

/// `$ORIGIN` is the folder of the file that is opened: such a library is opened where it lies.
#[test]
fn a_library_that_needs_another_beside_it_finds_it() {
    let test = "a_library_that_needs_another_beside_it_finds_it";
    let bench = Bench::new();
    bench.write("lib/beside.c", "int beside(void);\nint beside(void) { return 1; }\n");
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let include = root.join("plugin-api/include").display().to_string();
    let example = root.join("examples/format-c/int8.c").display().to_string();
    let beside = "lib/libbeside.so";
    let commands: [&[&str]; 2] = [
        &["-Wl,-soname,libbeside.so", "-o", beside, "lib/beside.c"],
        &["-Wl,--no-as-needed,-rpath,$ORIGIN/lib", "-I", &include, "-o", "c.so", &example, beside, "-lm"],
    ];
    for args in commands {
        let compiler =
            Command::new("cc").args(["-shared", "-fPIC"]).args(args).current_dir(bench.path("")).status();
        match compiler {
            Ok(status) => assert!(status.success()),
            Err(error) => return skipped(test, &format!("cc cannot be started: {error}")),
        }
    }
    let installed = bench.host(&["plugins", "install", "c.so", "--dir", "lib"]);
    assert!(installed.code == 0 && installed.stderr.contains("copy them there too"), "{}", installed.stderr);
    let outcome = bench.host(&["plugins", "check-one", "c.so", "answer"]);
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    assert!(outcome.stderr.contains("so it is loaded where it lies"), "{}", outcome.stderr);
    fs::remove_file(bench.path(beside)).unwrap();
    let outcome = bench.host(&["plugins", "check-one", "c.so", "answer"]);
    assert_eq!(outcome.code, 3, "{}", outcome.stderr);
    assert!(outcome.stderr.contains("the loader says: libbeside.so: "), "{}", outcome.stderr);
}
