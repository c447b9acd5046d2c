//! A file of compiled kernels: written atomically, and read back whole or not at all.
//!
//! The first line is the sha256 of the rest in hexadecimal. The rest is a safetensors file with a byte tensor for each
//! kernel, named by the kernel's key in hexadecimal. `kernel_cache` says which kernels.

use std::{
    collections::BTreeMap,
    fs, io,
    path::{Path, PathBuf},
    time::SystemTime,
};

use altgrad_base::files;
use safetensors::{Dtype, SafeTensors, tensor::TensorView};

use crate::checksums;

/// The extension of the files.
pub(crate) const EXTENSION: &str = "kernels";
/// Files that a folder keeps: those of other builds, drivers and GPUs.
const FILES: usize = 8;

/// Compiled kernels by the hexadecimal form of their keys.
pub(crate) type Kernels = BTreeMap<String, Vec<u8>>;

/// The kernels of a file, which counts as used now; none if it is missing.
///
/// # Errors
/// Why the file cannot be used: it cannot be read, or it is not what was written.
pub(crate) fn read(path: &Path) -> Result<Kernels, String> {
    let Some(bytes) = files::read_if_exists(path).map_err(|error| error.to_string())? else {
        return Ok(Kernels::new());
    };
    let line = bytes.iter().position(|byte| *byte == b'\n').ok_or("it is damaged: it has no checksum")?;
    let (sum, rest) = (&bytes[..line], &bytes[line + 1..]);
    if sum != checksums::of(rest).as_bytes() {
        return Err("it is damaged: its checksum differs".into());
    }
    let tensors = SafeTensors::deserialize(rest).map_err(|error| error.to_string())?;
    let _ = fs::File::open(path).and_then(|file| file.set_modified(SystemTime::now()));
    Ok(tensors.iter().map(|(name, view)| (name.to_string(), view.data().to_vec())).collect())
}

/// Writes the kernels, and removes the files of the folder that were not used for longest if it has too many.
///
/// # Errors
/// The operating system's error.
pub(crate) fn write(path: &Path, kernels: &Kernels) -> io::Result<()> {
    let tensors: Result<Vec<_>, _> = kernels
        .iter()
        .map(|(name, kernel)| TensorView::new(Dtype::U8, vec![kernel.len()], kernel).map(|view| (name, view)))
        .collect();
    let rest = safetensors::serialize(tensors.map_err(io::Error::other)?, None).map_err(io::Error::other)?;
    let contents = [checksums::of(&rest).as_bytes(), b"\n", &rest].concat();
    files::write(path, &contents)?;
    remove_oldest(path);
    Ok(())
}

/// Keeps the files beside `path` that were used last. A failure leaves more of them.
fn remove_oldest(path: &Path) {
    let Some(entries) = path.parent().and_then(|folder| fs::read_dir(folder).ok()) else { return };
    let mut found: Vec<(SystemTime, PathBuf)> = entries
        .filter_map(|entry| entry.ok().map(|entry| entry.path()))
        .filter(|file| file.extension().is_some_and(|extension| extension == EXTENSION))
        .filter_map(|file| Some((fs::metadata(&file).ok()?.modified().ok()?, file)))
        .collect();
    found.sort();
    let old = found.len().saturating_sub(FILES);
    for (_, file) in found.drain(..old) {
        let _ = fs::remove_file(file);
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn kernels() -> Kernels {
        [("00ff".to_string(), vec![1, 2, 3]), ("01".to_string(), Vec::new())].into()
    }

    #[test]
    fn kernels_are_read_as_they_were_written() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.kernels");
        assert_eq!(read(&path), Ok(Kernels::new()), "there is no file");
        write(&path, &kernels()).unwrap();
        assert_eq!(read(&path), Ok(kernels()));
    }

    /// Every cut and every changed byte.
    #[test]
    fn a_damaged_file_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.kernels");
        write(&path, &kernels()).unwrap();
        let whole = fs::read(&path).unwrap();
        for at in 0..whole.len() {
            fs::write(&path, &whole[..at]).unwrap();
            assert!(read(&path).unwrap_err().contains("damaged"), "cut at {at}");
            let mut changed = whole.clone();
            changed[at] ^= 1;
            fs::write(&path, changed).unwrap();
            assert!(read(&path).unwrap_err().contains("damaged"), "changed at {at}");
        }
        fs::remove_file(&path).unwrap();
        fs::create_dir(&path).unwrap();
        assert!(read(&path).unwrap_err().contains("not a regular file"));
    }

    #[test]
    fn the_oldest_files_of_a_folder_go() {
        let folder = tempfile::tempdir().unwrap();
        let name = |at: usize| folder.path().join(format!("{at}.kernels"));
        fs::write(folder.path().join("notes"), "").unwrap();
        for at in 0..FILES + 2 {
            write(&name(at), &kernels()).unwrap();
            let day = SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(86_400 * at as u64);
            fs::File::open(name(at)).unwrap().set_modified(day).unwrap();
        }
        write(&name(FILES + 1), &kernels()).unwrap();
        let left: Vec<usize> = (0..FILES + 2).filter(|at| name(*at).exists()).collect();
        assert_eq!(left, (2..FILES + 2).collect::<Vec<_>>());
        assert!(folder.path().join("notes").exists());
    }
}
