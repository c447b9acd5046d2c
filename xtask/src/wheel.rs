//! `cargo xtask wheel`: the Python package as a wheel that includes the staged host with all plugins.
//!
//! An environment gets the programs `altgrad-host` and `altgrad` in `bin`, and in `lib/altgrad` plugins and
//! `plugin-api`. pip builds it as for `pip install ./python`: it fetches maturin into an environment of its own, which
//! calls cargo. `ALTGRAD_PYTHON` names the Python whose pip is used, `python3` by default.

use std::{
    env, fs, io,
    path::{Path, PathBuf},
    process::Command,
};

use crate::{
    copy,
    files::{copy_folder, plugin_api},
    root, target_dir,
};

/// The short name of the host: a script beside it.
pub const SHORT: (&str, &str) = ("altgrad", "#!/bin/sh\nexec \"${0%/*}/altgrad-host\" \"$@\"\n");

/// Builds the wheel with the host and the plugins of a staged folder, and returns its path in `out`.
pub fn build(staged: &Path, out: &Path) -> Result<PathBuf, io::Error> {
    let python = env::var_os("ALTGRAD_PYTHON").unwrap_or_else(|| "python3".into());
    let folder = empty_folder(out)?;
    let host = folder.with_extension("host");
    lay_out(staged, &host)?;
    let mut pip = Command::new(&python);
    pip.args(["-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir"]).arg(&folder).arg("./python");
    // Absolute: pip and maturin work in other folders.
    pip.env("ALTGRAD_PLUGINS", fs::canonicalize(staged.join("plugins"))?);
    pip.env("ALTGRAD_HOST", fs::canonicalize(&host)?);
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
    fs::remove_dir_all(host)?;
    Ok(to)
}

/// The host's files as they lie in an environment.
fn lay_out(staged: &Path, to: &Path) -> Result<(), io::Error> {
    let (programs, own) = (to.join("bin"), to.join("lib/altgrad"));
    fs::create_dir_all(&programs)?;
    copy(&staged.join("altgrad-host"), &programs.join("altgrad-host"))?;
    fs::write(programs.join(SHORT.0), SHORT.1)?;
    copy_folder(&staged.join("plugins"), &own.join("plugins"))?;
    plugin_api(&own)
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
