//! State of the process that a plugin must not change: the processor's arithmetic, the working directory, the
//! environment, the actions of signals, and descriptors that are not its own.
//!
//! Seen from inside the process, before the library is loaded and after the check. What a plugin opens and does not
//! close is looked for by the check `leaks`; files that it leaves are looked for by the parent.

use std::{
    collections::BTreeMap,
    env,
    ffi::OsString,
    fs::{self, File},
    hint::black_box,
    io,
    mem::ManuallyDrop,
    path::PathBuf,
};

use crate::ffi;

/// Descriptors that are opened for a plugin to close.
const BAIT: usize = 4;

/// The state of the process.
#[derive(Debug)]
pub(super) struct Surroundings {
    arithmetic: Arithmetic,
    directory: PathBuf,
    environment: BTreeMap<OsString, OsString>,
    actions: Vec<usize>,
    blocked: Option<String>,
    descriptors: BTreeMap<OsString, PathBuf>,
    /// Held open until the process ends: closing a descriptor that other code has closed ends the process.
    _bait: Vec<ManuallyDrop<File>>,
}

/// The f32 arithmetic of this thread.
#[derive(Debug, PartialEq)]
struct Arithmetic {
    rounds_to_nearest: bool,
    has_subnormals: bool,
}

impl Arithmetic {
    fn now() -> Self {
        let sum = |a: f32, b: f32| black_box(black_box(a) + black_box(b));
        let product = |a: f32, b: f32| black_box(black_box(a) * black_box(b));
        // Less than half a step, and more than half a step: other directions take one of them elsewhere.
        let (little, much) = (f32::EPSILON / 8.0, f32::EPSILON * 0.75);
        let near = [sum(1.0, little), sum(-1.0, -little)] == [1.0, -1.0];
        let far = [sum(1.0, much), sum(-1.0, -much)] == [1.0 + f32::EPSILON, -1.0 - f32::EPSILON];
        let results = product(f32::MIN_POSITIVE, 0.5) != 0.0;
        let operands = product(f32::MIN_POSITIVE / 2.0, 4.0) != 0.0;
        Self { rounds_to_nearest: near && far, has_subnormals: results && operands }
    }
}

/// The open files of this process by descriptor, without the one of the listing itself.
fn descriptors() -> io::Result<BTreeMap<OsString, PathBuf>> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir("/proc/self/fd")? {
        let entry = entry?;
        if let Ok(target) = fs::read_link(entry.path())
            && !target.ends_with("fd")
        {
            found.insert(entry.file_name(), target);
        }
    }
    Ok(found)
}

/// The signals that this thread blocks, as the system writes them; `None` where it does not report them.
fn blocked() -> Option<String> {
    let status = fs::read_to_string("/proc/thread-self/status").ok()?;
    Some(status.lines().find_map(|line| line.strip_prefix("SigBlk:"))?.trim().to_string())
}

impl Surroundings {
    /// As they are before a plugin may change them.
    pub(super) fn now() -> io::Result<Self> {
        let bait =
            (0..BAIT).map(|_| File::open("/dev/null").map(ManuallyDrop::new)).collect::<io::Result<_>>()?;
        Ok(Self {
            arithmetic: Arithmetic::now(),
            directory: env::current_dir()?,
            environment: env::vars_os().collect(),
            actions: ffi::signal_actions(),
            blocked: blocked(),
            descriptors: descriptors()?,
            _bait: bait,
        })
    }

    /// The first change of state, as the end of a sentence about the plugin.
    pub(super) fn changed(&self) -> Option<String> {
        let arithmetic = Arithmetic::now();
        if arithmetic.rounds_to_nearest != self.arithmetic.rounds_to_nearest {
            return Some("left the processor rounding in another direction than to nearest".into());
        }
        if arithmetic.has_subnormals != self.arithmetic.has_subnormals {
            return Some("left the processor flushing subnormal numbers to zero".into());
        }
        let directory = env::current_dir().unwrap_or_default();
        if directory != self.directory {
            return Some(format!("changed the working directory to `{}`", directory.display()));
        }
        let environment: BTreeMap<OsString, OsString> = env::vars_os().collect();
        let names = self.environment.keys().chain(environment.keys());
        if let Some(name) =
            names.into_iter().find(|name| self.environment.get(*name) != environment.get(*name))
        {
            return Some(format!("changed the variable `{}` of the environment", name.display()));
        }
        let actions = ffi::signal_actions();
        if let Some(signal) =
            (0..actions.len()).find(|&signal| actions.get(signal) != self.actions.get(signal))
        {
            return Some(format!("changed what the process does on signal {}", signal + 1));
        }
        if blocked() != self.blocked {
            return Some("changed which signals its thread blocks".into());
        }
        let descriptors = descriptors().unwrap_or_default();
        let lost = self.descriptors.iter().find(|(number, target)| descriptors.get(*number) != Some(*target));
        lost.map(|(number, target)| {
            format!("closed descriptor {}, `{}`, which is not its own", number.display(), target.display())
        })
    }
}
