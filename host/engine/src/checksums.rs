//! Files of checksums, as `sha256sum` writes them: a checkpoint has one.

use std::{collections::BTreeMap, ffi::OsStr, fmt::Display, path::Path};

use altgrad_base::{
    diagnostic::Diagnostic,
    files::{self, hex},
};
use sha2::{Digest, Sha256};

/// The file's name: one line per file beside it.
pub const CHECKSUMS: &str = "checksums";

/// The checksum of some bytes.
#[must_use]
pub fn of(bytes: &[u8]) -> String {
    hex(&Sha256::digest(bytes))
}

/// The checksums in a file, by name.
///
/// # Errors
/// The first line that is no checksum.
pub fn parse(text: &str) -> Result<BTreeMap<&str, String>, &str> {
    text.lines().map(|line| entry(line).ok_or(line)).collect()
}

fn entry(line: &str) -> Option<(&str, String)> {
    let (sum, name) = line.split_once("  ")?;
    let is_sum = sum.len() == 64 && sum.bytes().all(|byte| byte.is_ascii_hexdigit());
    is_sum.then(|| (name, sum.to_ascii_lowercase()))
}

/// Compares the bytes of a file with its checksum, if the file of checksums beside it has one.
///
/// # Errors
/// They differ, or the checksums cannot be read.
pub fn verify(path: &Path, bytes: &[u8]) -> Result<(), Diagnostic> {
    let list = path.with_file_name(CHECKSUMS);
    let unreadable = |why: &dyn Display| {
        Diagnostic::config(format!("the checksums cannot be read ({why})"))
            .at(list.display())
            .hint("the checkpoint is damaged: use another one")
    };
    let text = files::read_if_exists(&list).map_err(|error| unreadable(&error))?.unwrap_or_default();
    let text = String::from_utf8(text).map_err(|error| unreadable(&error))?;
    let sums = parse(&text).map_err(|line| unreadable(&format!("{line:.80?} is no checksum")))?;
    let written = path.file_name().and_then(OsStr::to_str).and_then(|name| sums.get(name));
    if written.is_none_or(|written| *written == of(bytes)) {
        return Ok(());
    }
    Err(Diagnostic::config("the file is not what was written: its checksum differs")
        .at(path.display())
        .hint("the checkpoint is damaged: use another one"))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::fs;

    use super::*;

    /// The sum is that of `printf abc | sha256sum`, from FIPS 180-2.
    const ABC: &str = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";

    #[test]
    fn a_file_is_what_was_written_or_refused() {
        let folder = tempfile::tempdir().unwrap();
        let (path, list) = (folder.path().join("model"), folder.path().join(CHECKSUMS));
        assert_eq!(verify(&path, b"abc"), Ok(()), "there are no checksums");
        fs::write(&list, format!("{}  model\n", ABC.to_ascii_uppercase())).unwrap();
        assert_eq!(verify(&path, b"abc"), Ok(()));
        assert!(verify(&path, b"abd").unwrap_err().message.contains("its checksum differs"));
        assert_eq!(verify(&folder.path().join("other"), b"abd"), Ok(()), "it has none");
        for damaged in [&b"ba78  model\n"[..], b"\xff", ABC.as_bytes()] {
            fs::write(&list, damaged).unwrap();
            let error = verify(&path, b"abc").unwrap_err();
            assert!(error.message.starts_with("the checksums cannot be read ("), "{error}");
        }
    }
}
