//! The input files: one file, or the files of a folder, with their common SHA-256.

use std::{
    fs::{self, File},
    io::{self, Read},
    path::{Path, PathBuf},
};

use altgrad_base::{diagnostic::Diagnostic, files::hex};
use sha2::{Digest, Sha256};

use super::{progress::PrepareProgress, sources::Dataset};
use crate::meta::DataSource;

/// The kind of a file, or of an entry of an archive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum InputKind {
    /// A JSON record a line.
    Lines,
    /// The same, gzipped.
    LinesGz,
    /// One JSON record.
    Record,
    /// One document as it is.
    Text,
    /// Entries, gzipped.
    TarGz,
    /// Entries.
    Zip,
}

impl InputKind {
    /// By the name's end; `None` for other files: other types, hidden files, and the lists of labels that come with
    /// the data sets.
    pub(super) fn of(name: &str, dataset: Dataset) -> Option<Self> {
        let hidden = name.split('/').any(|part| part.starts_with('.') || part == "__MACOSX");
        let file = name.rsplit('/').next().unwrap_or(name).to_lowercase();
        if hidden || file.starts_with("eurovoc_") {
            return None;
        }
        let ends = [
            (".jsonl", Self::Lines),
            (".jsonl.gz", Self::LinesGz),
            (".json", Self::Record),
            (".txt", Self::Text),
            (".tar.gz", Self::TarGz),
            (".tgz", Self::TarGz),
            (".zip", Self::Zip),
        ];
        let kind = ends.into_iter().find(|(end, _)| file.ends_with(end)).map(|(_, kind)| kind);
        kind.filter(|kind| *kind != Self::Text || dataset == Dataset::Text)
    }

    /// True if it may be in a folder or an archive: archives in archives are not opened.
    pub(super) fn nests(self) -> bool {
        !matches!(self, Self::TarGz | Self::Zip)
    }
}

/// A file to be read.
#[derive(Debug, Clone)]
pub(super) struct InputFile {
    pub(super) path: PathBuf,
    /// Its path below the input folder, with `/`; or its name.
    pub(super) name: String,
    pub(super) kind: InputKind,
    pub(super) bytes: u64,
}

/// All files to be read.
#[derive(Debug)]
pub(super) struct Input {
    pub(super) root: PathBuf,
    pub(super) files: Vec<InputFile>,
}

impl Input {
    /// Finds the files: `root` itself, or the files below it except those in `out`, in the order of names.
    ///
    /// # Errors
    /// There is no readable file.
    pub(super) fn find(root: &Path, dataset: Dataset, out: &Path) -> Result<Self, Diagnostic> {
        let unreadable = |error: io::Error| {
            Diagnostic::config(format!("the input cannot be read ({error})")).at(root.display())
        };
        let found = fs::metadata(root).map_err(unreadable)?;
        let mut files = Vec::new();
        if found.is_dir() {
            let out = fs::canonicalize(out).ok();
            walk(root, "", dataset, out.as_deref(), &mut files).map_err(unreadable)?;
            files.sort_by(|a, b| a.name.cmp(&b.name));
        } else if !found.is_file() {
            return Err(unreadable(io::Error::other("it is neither a regular file nor a folder")));
        } else {
            let name = name_of(root);
            let kind = InputKind::of(&name, dataset);
            files.extend(kind.map(|kind| InputFile { path: root.into(), name, kind, bytes: found.len() }));
        }
        if files.is_empty() {
            let (text, ends) = match dataset {
                Dataset::Text => (".txt, ", ".txt, .jsonl or .json"),
                _ => ("", ".jsonl or .json"),
            };
            return Err(Diagnostic::config(format!("there is nothing to read for `{}`", dataset.name()))
                .at(root.display())
                .hint(format!(
                    "name a {text}.jsonl, .jsonl.gz, .tar.gz or .zip file, or a folder of {ends} files"
                )));
        }
        Ok(Self { root: root.into(), files })
    }

    /// True if the input is one text: split in two, without separators.
    pub(super) fn is_one_text(&self) -> bool {
        matches!(&self.files[..], [file] if file.path == self.root && file.kind == InputKind::Text)
    }

    /// Bytes of all files.
    pub(super) fn bytes(&self) -> u64 {
        self.files.iter().map(|file| file.bytes).sum()
    }

    /// A description of the input by its contents.
    ///
    /// # Errors
    /// A file cannot be read.
    pub(super) fn fingerprint(&self, progress: &dyn PrepareProgress) -> Result<DataSource, Diagnostic> {
        let (mut done, total) = (0, self.bytes());
        let mut listing = Sha256::new();
        let mut last = String::new();
        for file in &self.files {
            let mut seen = |bytes: u64| {
                done += bytes;
                progress.at("reading the input", done, Some(total));
            };
            last = sha256(&file.path, &mut seen).map_err(|error| {
                Diagnostic::config(format!("the input cannot be read ({error})")).at(file.path.display())
            })?;
            listing.update(format!("{last}  {}\n", file.name));
        }
        let sha256 = if self.files.len() == 1 && self.files[0].path == self.root {
            last
        } else {
            hex(&listing.finalize())
        };
        Ok(DataSource { name: name_of(&self.root), files: self.files.len() as u64, bytes: done, sha256 })
    }
}

/// SHA-256 of a file, in hex. `seen` is called with the number of bytes read, each time.
///
/// # Errors
/// The operating system's error.
pub(super) fn sha256(path: &Path, seen: &mut dyn FnMut(u64)) -> io::Result<String> {
    let mut file = File::open(path)?;
    let mut hash = Sha256::new();
    let mut buffer = vec![0; 1 << 18];
    loop {
        let read = match file.read(&mut buffer) {
            Ok(0) => return Ok(hex(&hash.finalize())),
            Ok(read) => read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        hash.update(&buffer[..read]);
        seen(read as u64);
    }
}

/// The last part of a path, even of `.` or `..`.
fn name_of(path: &Path) -> String {
    let whole = fs::canonicalize(path).unwrap_or_else(|_| path.into());
    whole.file_name().unwrap_or(whole.as_os_str()).to_string_lossy().into_owned()
}

/// Collects the files below a folder. Links to folders are not followed: they may lead round in circles.
fn walk(
    folder: &Path,
    prefix: &str,
    dataset: Dataset,
    out: Option<&Path>,
    files: &mut Vec<InputFile>,
) -> io::Result<()> {
    if out.is_some_and(|out| fs::canonicalize(folder).is_ok_and(|folder| folder == out)) {
        return Ok(());
    }
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let (path, name) = (entry.path(), format!("{prefix}{}", entry.file_name().to_string_lossy()));
        if entry.file_type()?.is_dir() {
            if !name.rsplit('/').next().is_some_and(|part| part.starts_with('.')) {
                walk(&path, &format!("{name}/"), dataset, out, files)?;
            }
        } else if let Some(kind) = InputKind::of(&name, dataset).filter(|kind| kind.nests()) {
            let found = fs::metadata(&path)?;
            if found.is_file() {
                files.push(InputFile { path, name, kind, bytes: found.len() });
            }
        }
    }
    Ok(())
}
