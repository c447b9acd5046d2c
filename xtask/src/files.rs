//! The parts of archive and wheel: folders, scripts, and the plugin API as cargo packages it.

use std::{
    fs, io,
    os::unix::fs::PermissionsExt,
    path::Path,
    process::{Command, Output},
};

use crate::{cargo, copy, root};

/// An executable script.
pub fn write_program(path: &Path, text: &str) -> Result<(), io::Error> {
    fs::write(path, text)?;
    fs::set_permissions(path, fs::Permissions::from_mode(0o755))
}

/// The API as cargo packages it: values of this workspace are written into its manifest.
pub fn plugin_api(folder: &Path) -> Result<(), io::Error> {
    // A folder of its own: two may pack at the same time.
    let scratch = folder.with_file_name("packed-api");
    let package = ["package", "--package", "altgrad-plugin-api", "--no-verify", "--allow-dirty"];
    ran(cargo().args(package).args(["--exclude-lockfile", "--quiet", "--target-dir"]).arg(&scratch))?;
    let version = fs::read_to_string(root().join("plugin-api/Cargo.toml"))?;
    let version = version.lines().find_map(|line| line.strip_prefix("version = \"")?.strip_suffix('"'));
    let version = version.ok_or_else(|| io::Error::other("plugin-api/Cargo.toml has no version"))?;
    let packed = scratch.join(format!("package/altgrad-plugin-api-{version}.crate"));
    let api = folder.join("plugin-api");
    fs::create_dir_all(&api)?;
    let leave_out = ["--exclude=Cargo.toml.orig", "--exclude=.cargo_vcs_info.json"];
    let mut tar = Command::new("tar");
    ran(tar.args(leave_out).arg("-xzf").arg(packed).arg("-C").arg(&api).args(["--strip-components", "1"]))?;
    fs::remove_dir_all(scratch)
}

/// Copies a folder with all below it.
pub fn copy_folder(from: &Path, to: &Path) -> Result<(), io::Error> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        // Python leaves it beside the scripts of `results`.
        if entry.file_name() == "__pycache__" {
            continue;
        }
        let target = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy_folder(&entry.path(), &target)?;
        } else {
            copy(&entry.path(), &target)?;
        }
    }
    Ok(())
}

/// Runs it to its end; an exit code that is not 0 is an error with the output.
pub fn ran(command: &mut Command) -> Result<Output, io::Error> {
    let output = command.output()?;
    if output.status.success() {
        return Ok(output);
    }
    Err(io::Error::other(format!("{command:?}: {}", String::from_utf8_lossy(&output.stderr))))
}
