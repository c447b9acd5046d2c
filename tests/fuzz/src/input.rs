//! An input: a folder of small files, in memory.

use std::{
    fs,
    path::{Path, PathBuf},
};

use sha2::{Digest, Sha256};

/// Files by name, in the order of their names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Input {
    /// Name and contents.
    pub files: Vec<(String, Vec<u8>)>,
}

impl Input {
    /// The files of a folder; `None` if it cannot be read.
    #[must_use]
    pub fn read(folder: &Path) -> Option<Self> {
        let mut files = Vec::new();
        for path in sorted(folder)? {
            files.push((path.file_name()?.to_str()?.to_string(), fs::read(&path).ok()?));
        }
        Some(Self { files })
    }

    /// Makes a folder hold these files and no others.
    ///
    /// # Panics
    /// The disk will not have it.
    pub fn write(&self, folder: &Path) {
        fs::create_dir_all(folder).expect("a scratch folder");
        for path in sorted(folder).unwrap_or_default() {
            let kept =
                self.files.iter().any(|(name, _)| path.file_name().is_some_and(|own| own == name.as_str()));
            if !kept {
                fs::remove_file(path).expect("a scratch file goes");
            }
        }
        for (name, contents) in &self.files {
            fs::write(folder.join(name), contents).expect("a scratch file");
        }
    }

    /// Bytes of all files, their names included.
    #[must_use]
    pub fn len(&self) -> usize {
        self.files.iter().map(|(name, contents)| name.len() + contents.len()).sum()
    }

    /// True if it is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// A name that follows from the contents.
    #[must_use]
    pub fn fingerprint(&self) -> String {
        let mut hash = Sha256::new();
        for (name, contents) in &self.files {
            hash.update(name);
            hash.update((contents.len() as u64).to_le_bytes());
            hash.update(contents);
        }
        let hex: String = hash.finalize().iter().take(6).map(|byte| format!("{byte:02x}")).collect();
        format!("found-{hex}")
    }
}

/// The inputs below a folder, each a folder, in the order of their names.
#[must_use]
pub fn corpus(folder: &Path) -> Vec<Input> {
    sorted(folder).unwrap_or_default().iter().filter_map(|path| Input::read(path)).collect()
}

/// Removes a scratch folder.
pub fn clear(folder: &Path) {
    let _ = fs::remove_dir_all(folder);
}

fn sorted(folder: &Path) -> Option<Vec<PathBuf>> {
    let mut paths: Vec<PathBuf> = fs::read_dir(folder).ok()?.flatten().map(|entry| entry.path()).collect();
    paths.sort();
    Some(paths)
}
