//! Reading a checkpoint: its checksums are verified before any use, and a large file is read only after its size is
//! known to fit the run.

use std::{
    collections::BTreeMap,
    fmt,
    fs::{self, File},
    io::{self, Read},
    path::{Path, PathBuf},
};

use altgrad_base::{diagnostic::Diagnostic, files::hex};
use altgrad_run_folder::folder::CONFIG;
use serde::Deserialize;
use sha2::{Digest, Sha256};

use super::{
    layout::{CHECKSUMS, FILES, STATE, TENSORS},
    sanity,
    state::{self, CheckpointState},
};
use crate::{checksums, tensor_file::TensorFile};

/// Largest text file, bytes: some thousand times the usual one.
const MOST_TEXT: u64 = 64 << 20;
/// Bytes hashed at once.
const PART: usize = 1 << 18;

/// The reason why a run cannot resume from a folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Damage {
    /// The file or folder.
    pub path: PathBuf,
    /// The damage, worded to follow the name in a sentence.
    pub what: String,
}

impl Damage {
    pub(super) fn new(path: &Path, what: impl Into<String>) -> Self {
        Self { path: path.to_path_buf(), what: what.into() }
    }

    fn io(path: &Path, error: &io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::NotFound => Self::new(path, "is missing"),
            _ => Self::new(path, format!("cannot be read ({error})")),
        }
    }
}

/// `step-000100/model.safetensors is missing`.
impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut names: Vec<_> = self.path.iter().rev().take(2).map(|name| name.to_string_lossy()).collect();
        let is_a_file = |name: &str| FILES.contains(&name) || name == CHECKSUMS;
        if !names.first().is_some_and(|name| is_a_file(name)) {
            names.truncate(1);
        }
        names.reverse();
        write!(f, "{} {}", names.join("/"), self.what)
    }
}

impl From<Damage> for Diagnostic {
    fn from(damage: Damage) -> Self {
        Self::config(format!("the checkpoint cannot be used: {damage}"))
            .at(damage.path.display())
            .hint("`--resume auto` resumes from the newest valid one")
    }
}

/// A checkpoint with correct checksums; its tensors are not read yet.
#[derive(Debug, Clone)]
pub struct Checkpoint {
    /// Its folder.
    pub path: PathBuf,
    /// Everything that is not a tensor.
    pub state: CheckpointState,
    /// The resolved run file.
    pub config: toml::Table,
}

/// The first keys of every version of the state.
#[derive(Deserialize)]
struct Header {
    format: String,
    version: u32,
}

impl Checkpoint {
    /// Opens a checkpoint's folder and checks every file.
    ///
    /// # Errors
    /// The first fault.
    pub fn open(path: &Path) -> Result<Self, Damage> {
        let found = fs::metadata(path).map_err(|error| Damage::io(path, &error))?;
        if !found.is_dir() {
            return Err(Damage::new(path, "is not a folder"));
        }
        let state = text(&path.join(STATE))?;
        foreign(&path.join(STATE), &state)?;
        let sums = written_sums(&path.join(CHECKSUMS))?;
        let config = text(&path.join(CONFIG))?;
        for (name, text) in [(STATE, &state), (CONFIG, &config)] {
            compare(&path.join(name), &sums[name], &checksums::of(text.as_bytes()))?;
        }
        let broken = |name: &str, error: toml::de::Error| {
            Damage::new(&path.join(name), format!("cannot be understood ({})", error.message()))
        };
        let state: CheckpointState = toml::from_str(&state).map_err(|error| broken(STATE, error))?;
        sanity::check(&state).map_err(|what| Damage::new(&path.join(STATE), what))?;
        for name in TENSORS {
            let file = path.join(name);
            let io = |error: io::Error| Damage::io(&file, &error);
            let (found, written) = (fs::metadata(&file).map_err(io)?.len(), state.bytes.get(name));
            if Some(&found) != written {
                let written = written.map_or("an unknown number was".into(), |bytes| format!("{bytes} were"));
                return Err(Damage::new(&file, format!("has {found} bytes, {written} written")));
            }
            compare(&file, &sums[name], &checksum(&file).map_err(io)?)?;
        }
        let config = toml::from_str(&config).map_err(|error| broken(CONFIG, error))?;
        Ok(Self { path: path.to_path_buf(), state, config })
    }

    /// The contents of one of its files, of at most `most` bytes.
    ///
    /// # Errors
    /// The file is larger, or cannot be read.
    pub(super) fn file(&self, name: &str, most: u64) -> Result<(PathBuf, Vec<u8>), Damage> {
        let path = self.path.join(name);
        let bytes = read(&path, most)?;
        Ok((path, bytes))
    }
}

/// The tensors of the file `bytes` came from, its header checked.
///
/// # Errors
/// The file is not a safetensors file, or is truncated.
pub(super) fn tensors<'a>(path: &'a Path, bytes: &'a [u8]) -> Result<TensorFile<'a>, Damage> {
    TensorFile::parse(path, bytes)
        .map_err(|error| Damage::new(path, format!("is not a safetensors file ({error})")))
}

/// Refuses a file that another program or another version wrote.
fn foreign(path: &Path, text: &str) -> Result<(), Damage> {
    match toml::from_str::<Header>(text) {
        Ok(header) if header.format != state::FORMAT => {
            Err(Damage::new(path, format!("is of another program: it says {:?}", header.format)))
        }
        Ok(header) if header.version != state::VERSION => {
            let (theirs, ours) = (header.version, state::VERSION);
            Err(Damage::new(path, format!("has layout version {theirs}, this host reads {ours}")))
        }
        Ok(_) => Ok(()),
        Err(error) => Err(Damage::new(path, format!("cannot be understood ({})", error.message()))),
    }
}

/// The checksum of each of [`FILES`].
fn written_sums(path: &Path) -> Result<BTreeMap<&'static str, String>, Damage> {
    let text = text(path)?;
    let no_checksum = |line: &str| Damage::new(path, format!("has a line that is no checksum: {line:.80?}"));
    let mut sums = checksums::parse(&text).map_err(no_checksum)?;
    let mut sum = |name: &str| sums.remove(name).ok_or_else(|| Damage::new(path, format!("lacks {name}")));
    FILES.into_iter().map(|name| sum(name).map(|sum| (name, sum))).collect()
}

fn compare(path: &Path, written: &str, found: &str) -> Result<(), Damage> {
    if written == found {
        return Ok(());
    }
    Err(Damage::new(path, "is not what was written: its checksum differs"))
}

/// A file's checksum, read piece by piece.
fn checksum(path: &Path) -> io::Result<String> {
    let mut file = regular(path)?;
    let (mut sum, mut buffer) = (Sha256::new(), vec![0; PART]);
    loop {
        match file.read(&mut buffer) {
            Ok(0) => return Ok(hex(&sum.finalize())),
            Ok(read) => sum.update(&buffer[..read]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

/// Opens a regular file: a pipe could block for ever.
fn regular(path: &Path) -> io::Result<File> {
    if !fs::metadata(path)?.is_file() {
        return Err(io::Error::other("it is not a regular file"));
    }
    File::open(path)
}

/// Reads a file of at most `most` bytes; longer files are not read into memory.
fn read(path: &Path, most: u64) -> Result<Vec<u8>, Damage> {
    let io = |error: io::Error| Damage::io(path, &error);
    let file = regular(path).map_err(io)?;
    let length = file.metadata().map_err(io)?.len();
    if length > most {
        return Err(Damage::new(path, format!("has {length} bytes, {most} are the most that fit this run")));
    }
    let mut bytes = Vec::with_capacity(length as usize);
    file.take(most).read_to_end(&mut bytes).map_err(io)?;
    Ok(bytes)
}

fn text(path: &Path) -> Result<String, Damage> {
    String::from_utf8(read(path, MOST_TEXT)?).map_err(|_| Damage::new(path, "is not UTF-8 text"))
}

/// The state of the checkpoint in a folder, its checksums unchecked: for callers that read few of its files. `None`
/// where the folder has none.
///
/// # Errors
/// The file is damaged, of another version, or has values that no run can have.
pub fn state_of(folder: &Path) -> Result<Option<CheckpointState>, Damage> {
    let path = folder.join(STATE);
    if !path.exists() {
        return Ok(None);
    }
    let text = text(&path)?;
    foreign(&path, &text)?;
    let broken =
        |error: toml::de::Error| Damage::new(&path, format!("cannot be understood ({})", error.message()));
    let state = toml::from_str(&text).map_err(broken)?;
    sanity::check(&state).map_err(|what| Damage::new(&path, what))?;
    Ok(Some(state))
}

/// The validation loss in a checkpoint, unchecked: to find the best among many.
pub(super) fn val_loss(path: &Path) -> Option<f64> {
    #[derive(Deserialize)]
    struct Loss {
        val_loss: Option<f64>,
    }
    let loss: Loss = toml::from_str(&text(&path.join(STATE)).ok()?).ok()?;
    loss.val_loss.filter(|loss| !loss.is_nan())
}
