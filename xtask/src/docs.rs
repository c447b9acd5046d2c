//! `cargo xtask docs`: the pages of the book that are generated from the host's types and definitions.

use std::{fs, io, process::Command};

use crate::{DEV, root, stage};

/// Pages, and the host's argument that prints each.
const PAGES: [(&str, &str); 5] = [
    ("run-file.md", "run-file"),
    ("commands.md", "commands"),
    ("metrics.md", "metrics"),
    ("plugin-options.md", "plugin-options"),
    ("cast-properties.md", "cast-properties"),
];

pub fn run(args: &[String]) -> Result<u8, io::Error> {
    let check = args.iter().any(|arg| arg == "--check");
    let host = stage(&DEV, &[])?.join("altgrad-host");
    let mut behind = 0;
    for (page, what) in PAGES {
        let output = Command::new(&host).args(["reference", what]).output()?;
        if !output.status.success() {
            return Err(io::Error::other(String::from_utf8_lossy(&output.stderr).into_owned()));
        }
        let path = root().join("docs").join(page);
        if fs::read(&path).is_ok_and(|bytes| bytes == output.stdout) {
            continue;
        }
        if check {
            eprintln!("docs/{page} is not what the types generate: run `cargo xtask docs`");
            behind = 1;
        } else {
            fs::write(&path, output.stdout)?;
            println!("docs/{page} written");
        }
    }
    Ok(behind)
}
