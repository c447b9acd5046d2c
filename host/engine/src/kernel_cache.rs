//! Compiled CUDA kernels on disk: a process compiles only those that no earlier process of its build has compiled.
//!
//! The tensor library keeps the PTX of each kernel in memory, by the kernel and the build of the host. When a device
//! opens, a file fills this memory; it is written again when kernels were added. Its name has a digest of all that
//! decides the PTX and whether a driver accepts it. A damaged file is ignored and replaced. The probe of the device
//! compiles before, so that a missing compiler is always found.

use std::{
    env, fs, io,
    path::{Path, PathBuf},
};

use altgrad_base::files::{self, hex};
use altgrad_run_folder::record::KernelFile;
use cubecl::config::{CubeClRuntimeConfig, RuntimeConfig as _, cache::CacheConfig};
use cubecl_environment::{
    bytes::Bytes,
    environment,
    persistence::{self, Origin},
};
use parking_lot::Mutex;

use crate::{
    checksums,
    kernel_file::{self, EXTENSION, Kernels},
};

/// A folder for the files; empty or `off` for none.
const FOLDER: &str = "ALTGRAD_KERNEL_CACHE";

/// The folder of the files: that of `ALTGRAD_KERNEL_CACHE`, by default the user's cache folder (XDG Base Directory
/// Specification 0.8). `None` if there is none.
fn folder() -> Option<PathBuf> {
    if let Some(named) = env::var_os(FOLDER) {
        return (!named.is_empty() && named != "off").then(|| named.into());
    }
    // The specification: a path that is not absolute is none.
    let named = |name: &str| env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let cache = named("XDG_CACHE_HOME").or_else(|| Some(named("HOME")?.join(".cache")))?;
    Some(cache.join("altgrad/kernels"))
}

/// Makes the tensor library keep compiled kernels, if they have a folder. It has an effect before the first use of a
/// device.
pub(crate) fn enable() {
    let Some(folder) = folder() else { return };
    let mut config = CubeClRuntimeConfig::from_current_dir().override_from_env();
    config.compilation.cache = true;
    config.environment.path = CacheConfig::Directory(folder);
    if !CubeClRuntimeConfig::try_set(config) {
        tracing::debug!(
            "compiled kernels are not kept: the tensor library has read its configuration before"
        );
    }
}

/// The kernels of a device, in memory and in a file.
#[derive(Debug)]
pub(crate) struct KernelCache {
    /// Where the tensor library keeps them.
    namespace: String,
    file: PathBuf,
    /// Kernels that the file had when the device opened.
    read: usize,
    /// Kernels in memory when the file was read or written last.
    stored: Mutex<usize>,
}

impl KernelCache {
    /// Reads the file of a device with that target, driver and NVRTC, which has computed its probe. `None` if kernels
    /// are not kept, or if something that decides them is unknown.
    pub(crate) fn open(target: &str, driver: Option<&str>, nvrtc: Option<&str>) -> Option<Self> {
        let suffix = format!("/{target}-cpp");
        let is_own = |name: &str| name.starts_with("cuda/") && name.ends_with(&suffix);
        let namespace =
            environment::namespaces().into_iter().find(|found| is_own(&found.namespace))?.namespace;
        let build = hex(buildid::build_id()?);
        let decisive = [namespace.as_str(), &build, driver?, nvrtc?].join("\n");
        let digest = checksums::of(decisive.as_bytes());
        let file = folder()?.join(format!("{target}-{}.{EXTENSION}", &digest[..16]));
        Some(Self::filled(namespace, file))
    }

    fn filled(namespace: String, file: PathBuf) -> Self {
        let kernels = kernel_file::read(&file).unwrap_or_else(|why| {
            tracing::warn!(
                "compiled kernels are not read from {}, they are compiled again: {why}",
                file.display()
            );
            Kernels::new()
        });
        let read = kernels.len();
        let memory = persistence::open(&namespace);
        for (key, kernel) in kernels {
            if let Some(key) = bytes(&key) {
                // It never replaces what this process has compiled.
                memory.insert(&key, Bytes::from_bytes_vec(kernel), Origin::Imported);
            }
        }
        let cache = Self { namespace, file, read, stored: Mutex::new(read) };
        tracing::debug!("{read} compiled kernels from {}", cache.file.display());
        cache
    }

    /// Writes the file if this process has compiled kernels since. A failure only costs time later.
    pub(crate) fn store(&self) {
        let mut stored = self.stored.lock();
        let count = self.count();
        if count <= *stored {
            return;
        }
        match write(&self.file, self.kernels()) {
            Ok(true) => *stored = count,
            // Another process holds the folder: the next call tries again.
            Ok(false) => {}
            Err(error) => {
                tracing::debug!("kernels are not written to {}: {error}", self.file.display());
                *stored = count;
            }
        }
    }

    /// The number of kernels in memory.
    fn count(&self) -> usize {
        let mut count = 0;
        persistence::open(&self.namespace).scan(&mut |_, _| count += 1);
        count
    }

    /// The kernels in memory.
    fn kernels(&self) -> Kernels {
        let mut kernels = Kernels::new();
        persistence::open(&self.namespace).scan(&mut |key, kernel| {
            kernels.insert(hex(key), kernel.to_vec());
        });
        kernels
    }

    /// The file and its use, for `run.json`.
    pub(crate) fn record(&self) -> KernelFile {
        let added = self.count().saturating_sub(self.read) as u64;
        KernelFile { path: self.file.clone(), read: self.read as u64, added }
    }
}

impl Drop for KernelCache {
    fn drop(&mut self) {
        self.store();
    }
}

/// Writes the kernels and those that other processes have written; false if another process is writing.
fn write(file: &Path, mut kernels: Kernels) -> io::Result<bool> {
    let folder = file.parent().unwrap_or(Path::new("."));
    fs::create_dir_all(folder)?;
    let Some(_held) = files::try_hold(&folder.join("lock"))? else { return Ok(false) };
    for (key, kernel) in kernel_file::read(file).unwrap_or_default() {
        kernels.entry(key).or_insert(kernel);
    }
    kernel_file::write(file, &kernels).map(|()| true)
}

/// The bytes of a hexadecimal text.
fn bytes(hex: &str) -> Option<Vec<u8>> {
    let pairs = hex.as_bytes().chunks(2);
    pairs.map(|pair| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()).collect()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    /// Memory of another namespace stands for that of another process.
    #[test]
    fn kernels_of_one_process_are_those_of_the_next() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("new/a.kernels");
        let opened = |namespace: &str| KernelCache::filled(namespace.into(), file.clone());
        let compile = |namespace: &str, key: u8, kernel: u8| {
            let kernel = Bytes::from_bytes_vec(vec![kernel; 3]);
            persistence::open(namespace).insert(&[key, 0xff], kernel, Origin::Local);
        };
        let first = opened("cuda/test/first");
        assert_eq!((first.record().read, first.record().added), (0, 0));
        compile("cuda/test/first", 1, 1);
        compile("cuda/test/other", 3, 3);
        let other = opened("cuda/test/other");
        assert_eq!(first.record().added, 1);
        drop(first);
        // Both write the same file.
        drop(other);

        compile("cuda/test/second", 1, 9);
        let second = opened("cuda/test/second");
        let found = second.kernels();
        assert_eq!(found["03ff"], [3; 3], "of the file");
        assert_eq!(found["01ff"], [9; 3], "what this process has compiled stays");
        assert_eq!(second.record().read, 2);

        fs::write(&file, "damaged").unwrap();
        let third = opened("cuda/test/third");
        assert_eq!(third.record().read, 0);
        compile("cuda/test/third", 4, 4);
        drop(third);
        assert_eq!(kernel_file::read(&file).unwrap().len(), 1, "the damaged file is replaced");
    }
}
