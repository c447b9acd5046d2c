//! `cargo xtask wheel`: the Python package as a wheel that includes the staged format plugins.
//!
//! pip builds it as for `pip install ./python`: it fetches maturin into an environment of its own, which calls cargo. `ALTGRAD_PYTHON`
//! names the Python whose pip is used, `python3` by default.

use std::{
    env, fs, io,
    path::{Path, PathBuf},
    process::Command,
};

use crate::{root, target_dir};

/// Builds the wheel with the plugins of a staged folder, and returns its path in `out`.
pub fn build(staged: &Path, out: &Path) -> Result<PathBuf, io::Error> {
    let python = env::var_os("ALTGRAD_PYTHON").unwrap_or_else(|| "python3".into());
    let folder = empty_folder(out)?;
    let mut pip = Command::new(&python);
    pip.args(["-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir"]).arg(&folder).arg("./python");
    // Absolute: pip and maturin work in other folders.
    pip.env("ALTGRAD_PLUGINS", fs::canonicalize(staged.join("plugins"))?);
    pip.env("CARGO_TARGET_DIR", target_dir()).current_dir(root());
    let built =
        pip.output().map_err(|error| failed(&format!("{} does not start: {error}", python.display())))?;
    if !built.status.success() {
        return Err(failed(&String::from_utf8_lossy(&built.stderr)));
    }
    let wheel = fs::read_dir(&folder)?.next().ok_or_else(|| failed("pip wrote no wheel"))??.path();
    let to = out.join(wheel.file_name().unwrap_or_default());
    fs::rename(&wheel, &to)?;
    fs::remove_dir(folder)?;
    Ok(to)
}

/// An empty folder: pip also leaves older wheels where it writes.
fn empty_folder(out: &Path) -> Result<PathBuf, io::Error> {
    let folder = out.join(format!("wheel-{}", std::process::id()));
    fs::create_dir_all(&folder)?;
    Ok(folder)
}

fn failed(why: &str) -> io::Error {
    io::Error::other(format!(
        "the wheel cannot be built: {}\nhint: ALTGRAD_PYTHON names a Python 3.11 or newer with pip; --no-wheel packs without the wheel",
        why.trim_end()
    ))
}
