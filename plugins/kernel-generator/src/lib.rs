//! The committed kernel texts: their list, and their generation.
//!
//! All minifloats share the texts of `format-kit`, and all optimizers those of `optimizer-kit`. A test compares the
//! committed files with the generated ones, as far as cubecl is reproducible ([`canonical`]).

mod canonical;

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use altgrad_kernel_kit::{Minifloat, Texts, UpdateRule};
pub use canonical::canonical;

/// The command that writes the committed files.
pub const COMMAND: &str = "cargo xtask kernels";

/// A crate that carries kernel texts.
#[derive(Debug, Clone, Copy)]
pub struct Owner {
    /// Its two files from the root of the repository, without extension.
    pub file: &'static str,
    make: fn() -> Texts,
}

/// All of them.
pub const OWNERS: [Owner; 2] = [
    Owner { file: "plugins/format-kit/src/kernel_texts", make: Texts::of_format::<Minifloat> },
    Owner { file: "plugins/optimizer-kit/src/kernel_texts", make: || Texts::of_updates(&UpdateRule::ALL) },
];

impl Owner {
    /// Makes its texts.
    #[must_use]
    pub fn texts(&self) -> Texts {
        (self.make)()
    }

    /// Its table and the texts it points into.
    #[must_use]
    pub fn paths(&self, root: &Path) -> [PathBuf; 2] {
        ["rs", "deflate"].map(|extension| root.join(self.file).with_extension(extension))
    }

    /// The expected content of its two files, in the order of [`Owner::paths`].
    #[must_use]
    pub fn made(&self) -> (String, Vec<u8>) {
        let texts = self.texts();
        let name = Path::new(self.file).with_extension("deflate");
        let name = name.file_name().unwrap_or_default().to_string_lossy();
        let head = format!(
            "//! Kernel texts, deflated, and how to launch them. Made by `{COMMAND}`: not to be edited.\n\n"
        );
        (head + &texts.table(&name), texts.deflated().to_vec())
    }

    /// Returns whether the committed files differ from those that were [`made`](Owner::made), or one is missing.
    ///
    /// # Errors
    /// An existing file cannot be read.
    pub fn is_behind(&self, root: &Path, (table, deflated): &(String, Vec<u8>)) -> io::Result<bool> {
        let [Some(found_table), Some(found_deflated)] = self.paths(root).map(|path| read(&path).transpose())
        else {
            return Ok(true);
        };
        let found = canonical(&String::from_utf8_lossy(&found_table?), &found_deflated?);
        Ok(found.is_none() || found != canonical(table, deflated))
    }
}

/// A file's content, if it exists.
fn read(path: &Path) -> io::Result<Option<Vec<u8>>> {
    match fs::read(path) {
        Ok(content) => Ok(Some(content)),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(e) => Err(io::Error::new(e.kind(), format!("{}: {e}", path.display()))),
    }
}
