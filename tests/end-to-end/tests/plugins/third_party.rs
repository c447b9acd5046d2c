//! A plugin author's first ten minutes, as in the book: from the archive alone, in another folder, with the commands of
//! `docs/plugins.md`. Also the other content of the archive.

use std::{
    fs,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    process::{Command, Output},
};

use altgrad_end_to_end::{Bench, built, stage};

/// The commands that the guide tells its reader to run, in order.
fn transcript() -> String {
    let guide = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/plugins.md");
    let text = fs::read_to_string(guide).unwrap();
    let blocks =
        text.split("\n```sh run\n").skip(1).map(|rest| rest[..rest.find("```").unwrap()].to_string());
    let script: String = blocks.collect();
    assert!(script.matches("plugins new").count() == 3, "the guide makes one plugin of each kind:\n{script}");
    script
}

#[track_caller]
fn ran(command: &mut Command) -> Output {
    let output = command.output().unwrap();
    let (stdout, stderr) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{command:?}: {stdout}{stderr}");
    output
}

/// The archive of the staged host, unpacked as `altgrad` in the bench's folder.
fn unpacked(bench: &Bench) -> PathBuf {
    let out = bench.path("out");
    fs::create_dir(&out).unwrap();
    // The tests of the Python package build the wheel.
    let dist = ["dist", "--no-wheel", "--staged"];
    ran(Command::new(built("xtask")).args(dist).arg(stage()).arg("--out").arg(&out));
    let archive = fs::read_dir(&out).unwrap().map(|entry| entry.unwrap().path());
    let archive = archive.into_iter().find(|path| path.extension().is_some_and(|e| e == "gz")).unwrap();
    fs::create_dir(bench.path("altgrad")).unwrap();
    let mut tar = Command::new("tar");
    ran(tar.arg("-xzf").arg(archive).arg("-C").arg(bench.path("altgrad")).args(["--strip-components", "1"]));
    // Only the unpacked archive is used from here on.
    fs::remove_dir_all(out).unwrap();
    bench.path("altgrad")
}

/// The archive's pages for users. Those for developers, `ARCHITECTURE.md` and `CONTRIBUTING.md`, link to sources that
/// it lacks.
fn pages(folder: &Path) -> Vec<PathBuf> {
    let paths = |name: &str| fs::read_dir(folder.join(name)).unwrap().map(|entry| entry.unwrap().path());
    let book = paths("docs").filter(|path| path.extension().is_some_and(|extension| extension == "md"));
    let experiments = paths("results").map(|path| path.join("README.md")).filter(|path| path.is_file());
    let others = ["README.md", "configs/README.md", "results/README.md"].map(|page| folder.join(page));
    book.chain(experiments).chain(others).collect()
}

/// Cargo for a scaffold, offline: its dependencies were built before.
fn cargo(bench: &Bench, name: &str, args: &[&str]) -> Command {
    let mut command = Command::new("cargo");
    command.args(args).current_dir(bench.path(name)).env("CARGO_NET_OFFLINE", "true");
    command.env("CARGO_TARGET_DIR", bench.path("target")).env_remove("RUSTC").env_remove("RUSTFLAGS");
    command
}

#[test]
#[ignore = "--all: makes the archive"]
fn the_guides_commands_work_from_the_archive_alone() {
    let bench = Bench::new();
    unpacked(&bench);
    // Dependencies built in an earlier run of this test are not built again.
    let kept = stage().parent().unwrap().join("third-party");
    fs::create_dir_all(&kept).unwrap();
    symlink(&kept, bench.path("target")).unwrap();
    bench.write("transcript.sh", &transcript());
    let mut bash = Command::new("bash");
    bash.args(["-euo", "pipefail", "transcript.sh"]).current_dir(bench.path(""));
    bash.env("CARGO_NET_OFFLINE", "true")
        .env_remove("RUSTC")
        .env_remove("RUSTFLAGS")
        .env_remove("ALTGRAD_STAGE");
    let output = ran(&mut bash);
    let said = String::from_utf8_lossy(&output.stdout).into_owned();

    for run in ["lns8", "signs"] {
        assert_eq!(bench.read(&format!("runs/{run}/metrics.csv")).lines().count(), 7, "{run}");
    }
    assert_eq!(bench.read("runs/lines/lines.txt").lines().count(), 6);
    assert!(bench.read("runs/in-c/lines.txt").contains("train/loss"));
    assert!(bench.read("runs/signs/config.toml").contains("momentum = 0.95"));
    assert_eq!(said.matches(", 0 failed").count(), 2 * 3, "three in Rust, three in C: {said}");

    for name in ["lns8", "sign-sgd", "lines"] {
        ran(&mut cargo(&bench, name, &["fmt", "--check"]));
        ran(&mut cargo(&bench, name, &["clippy", "--release", "--all-targets", "--", "-D", "warnings"]));
        let manifest = bench.read(&format!("{name}/Cargo.toml"));
        assert!(!manifest.contains("altgrad-host"), "{manifest}");
        // The README's run file, with the host that has the plugin now.
        let readme = bench.read(&format!("{name}/README.md"));
        let example = readme.split("```toml\n").nth(1).unwrap().split("```").next().unwrap();
        bench.write("example.toml", example);
        ran(Command::new(bench.path("altgrad/altgrad-host"))
            .args(["check", "example.toml", "--device", "cpu"])
            .env("XDG_STATE_HOME", bench.path("state"))
            .current_dir(bench.path("")));
    }
    // The CI file's command, with the API in another place.
    ran(&mut cargo(&bench, "lns8", &["add", "altgrad-plugin-api", "--path", "../altgrad/plugin-api"]));
    let manifest = bench.read("lns8/Cargo.toml");
    assert!(manifest.contains("path = \"../altgrad/plugin-api\""), "{manifest}");
}

#[test]
#[ignore = "--all: makes the archive"]
fn the_archive_is_complete_and_says_what_it_is() {
    let bench = Bench::new();
    let folder = unpacked(&bench);
    let host = |args: &[&str]| {
        let output = ran(Command::new(folder.join("altgrad-host"))
            .args(args)
            .env("XDG_STATE_HOME", bench.path("state"))
            .current_dir(bench.path("")));
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    let list = host(&["plugins", "list"]);
    assert!(["E5M2", "adamw", "csv"].iter().all(|name| list.contains(name)), "{list}");
    let version = host(&["--version"]);
    for fact in ["altgrad-host 0.", "commit ", "plugin-api ", "features ", "rustc 1.", "target "] {
        assert!(version.contains(fact), "{fact} in {version}");
    }
    assert_eq!(host(&["-V"]).lines().count(), 1);
    for file in [
        "configs/exp.toml",
        "docs/README.md",
        "plugin-api/Cargo.toml",
        "plugin-api/src/lib.rs",
        "completions/altgrad-host.bash",
        "completions/_altgrad-host",
        "completions/altgrad-host.fish",
        "man/altgrad-host.1",
        "man/altgrad-host-run.1",
        "man/altgrad-host-plugins-new.1",
        "LICENSE-MIT",
        "LICENSE-APACHE",
        "licences/THIRD-PARTY.txt",
    ] {
        assert!(fs::metadata(folder.join(file)).is_ok_and(|meta| meta.len() > 0), "{file}");
    }
    for page in pages(&folder) {
        let text = fs::read_to_string(&page).unwrap();
        for link in text.split("](").skip(1).map(|rest| &rest[..rest.find([')', '#']).unwrap()]) {
            // The second is a page of rustdoc, beside the built book.
            let is_elsewhere = link.starts_with("http") || link.starts_with("../doc/");
            assert!(is_elsewhere || page.with_file_name(link).exists(), "{}: {link}", page.display());
        }
    }
    // The API is independent: nothing in its manifest needs this workspace.
    let manifest = fs::read_to_string(folder.join("plugin-api/Cargo.toml")).unwrap();
    assert!(!manifest.contains("workspace = true"), "{manifest}");
    let licences = fs::read_to_string(folder.join("licences/THIRD-PARTY.txt")).unwrap();
    for package in ["abi_stable 0.11.3: MIT", "burn 0.22.1: ", "clap 4."] {
        assert!(licences.contains(package), "{package}");
    }
    assert!(!licences.contains(": unknown ("), "a package without a licence:\n{licences}");
    let check = host(&["check", "altgrad/configs/exp.toml", "--device", "cpu"]);
    assert!(!check.is_empty());
}

#[test]
fn what_plugins_new_refuses_it_says_and_leaves_no_trace() {
    let bench = Bench::new();
    let api = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../plugin-api").display().to_string();
    let new =
        |name: &str, more: &[&str]| bench.host(&[&["plugins", "new", "--kind", "sink", name], more].concat());
    let before = bench.contents();
    for (name, more, message) in [
        ("Upper", &["--api", api.as_str()][..], "invalid plugin name \"Upper\""),
        ("../out", &["--api", api.as_str()], "invalid plugin name"),
        ("fine", &["--api", "nowhere"], "altgrad-plugin-api is not there"),
        ("fine", &["--api", "."], "altgrad-plugin-api is not there"),
        ("fine", &["--api", "1.0", "--path", "corpus.txt"], "the folder exists already"),
        ("fine", &["--api", "1.0", "--path", "corpus.txt/below"], "cannot write the plugin's folder"),
    ] {
        let outcome = new(name, more);
        assert!([1, 2].contains(&outcome.code), "{}", outcome.stderr);
        assert!(outcome.stderr.contains(message), "{message} in {}", outcome.stderr);
        assert_eq!(bench.contents(), before, "{name}");
    }
    let fine = new("fine", &["--api", "1.0"]);
    assert_eq!((fine.code, fine.stderr.as_str()), (0, ""));
    assert!(bench.read("fine/Cargo.toml").contains("altgrad-plugin-api = \"1.0\""));
    // Without an option, the API of the clone is found, and the manifest has no absolute path.
    let taken = new("csv", &[]);
    assert_eq!(taken.code, 0, "{}", taken.stderr);
    assert!(taken.stderr.contains("csv.so has a sink csv already"), "{}", taken.stderr);
    let manifest = bench.read("csv/Cargo.toml");
    let path = manifest.split("path = \"").nth(1).unwrap().split('"').next().unwrap();
    assert!(
        path.starts_with("../") && bench.path("csv").join(path).join("Cargo.toml").is_file(),
        "{manifest}"
    );
    let again = new("fine", &["--api", "1.0"]);
    assert_eq!(again.code, 2);
    assert!(again.stderr.contains("the folder exists already"), "{}", again.stderr);
}
