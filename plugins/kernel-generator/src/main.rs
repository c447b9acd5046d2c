//! Writes the committed kernel texts, or lists those that are out of date (`--check`), or writes all texts for reading
//! (`--texts DIR`).
//!
//! `cargo xtask kernels` starts it.

use std::{
    env, fs, io,
    path::{Path, PathBuf},
    process::ExitCode,
};

use altgrad_kernel_generator::{COMMAND, OWNERS, Owner};

/// The requested task.
enum Task {
    Write,
    Check,
    Read(PathBuf),
}

fn main() -> ExitCode {
    let args: Vec<String> = env::args().skip(1).collect();
    let task = match args.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        [] => Task::Write,
        ["--check"] => Task::Check,
        ["--texts", folder] => Task::Read(folder.into()),
        _ => {
            eprintln!("usage: {COMMAND} [--check | --texts DIR]");
            return ExitCode::from(2);
        }
    };
    match run(&task) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Runs the task; true if nothing is wrong.
fn run(task: &Task) -> io::Result<bool> {
    let mut well = true;
    for owner in &OWNERS {
        if let Task::Read(folder) = task {
            texts(owner, folder)?;
            continue;
        }
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let made = owner.made();
        if !owner.is_behind(&root, &made)? {
            continue;
        }
        if let Task::Write = task {
            let [table, deflated] = owner.paths(&root);
            fs::write(table, made.0)?;
            fs::write(deflated, made.1)?;
            println!("{} written", owner.file);
        } else {
            eprintln!("{} is not what its source generates: run `{COMMAND}`", owner.file);
            well = false;
        }
    }
    Ok(well)
}

/// Writes the texts of one crate into a folder of their own.
fn texts(owner: &Owner, folder: &Path) -> io::Result<()> {
    let folder = folder.join(owner.file);
    fs::create_dir_all(&folder)?;
    for (name, text) in owner.texts().plain() {
        fs::write(folder.join(name), text)?;
    }
    println!("{} written", folder.display());
    Ok(())
}
