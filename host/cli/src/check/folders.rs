//! The folders that a check's process is given instead of the user's: to work in, as home, and for temporary files.
//! Nothing may be left there.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use altgrad_base::scratch::Scratch;

/// The folders, and the description of a file's place in each.
const FOLDERS: [(&str, &str); 3] = [
    ("work", "the working directory"),
    ("home", "the home directory"),
    ("tmp", "the folder for temporary files"),
];

/// Folders of one check's processes.
#[derive(Debug)]
pub(super) struct Folders(Scratch);

impl Folders {
    pub(super) fn new() -> io::Result<Self> {
        let folders = Self(Scratch::new(None)?);
        for (name, _) in FOLDERS {
            fs::create_dir(folders.path(name))?;
        }
        Ok(folders)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// The working directory of the process.
    pub(super) fn work(&self) -> PathBuf {
        self.path("work")
    }

    /// The paths of the others.
    pub(super) fn variables(&self) -> [(&'static str, PathBuf); 2] {
        [("HOME", self.path("home")), ("TMPDIR", self.path("tmp"))]
    }

    /// The first file that is left in them, as the end of a sentence about the plugin.
    pub(super) fn left(&self) -> io::Result<Option<String>> {
        for (name, said) in FOLDERS {
            if let Some(entry) = fs::read_dir(self.path(name))?.next() {
                return Ok(Some(format!("left {:?} in {said}", entry?.file_name())));
            }
        }
        Ok(None)
    }

    /// A folder beside them, for the check's own files.
    pub(super) fn beside(&self) -> &Path {
        self.0.path()
    }
}
