//! Two checks that compare whole lives of a plugin: `leaks`, a hundred in one process, and `locale`, one here and one
//! where decimals have commas.
//!
//! The second check needs a machine with such a locale, so it brings one: glibc reads it from the path in `LOCPATH`.
//! The parent's side is the module `locale`.

use std::{fs, io, path::Path};

use crate::ffi;
use altgrad_base::files;
use altgrad_conformance::{CheckResult, Verdict as Passed};
use sha2::{Digest, Sha256};

/// The checks, as reports name them, with their requirements.
pub(super) const LEAKS: (&str, &str) =
    ("leaks", "100 instances, created and dropped, leak no memory, mapping, file or thread");
pub(super) const LOCALE: (&str, &str) =
    ("locale", "results do not depend on the locale, including one set by other code in the process");
/// The request to a child for the fingerprint of one life.
pub(super) const LIFE: &str = "fingerprint";

/// The locale with commas, called as people's are.
pub(super) const NAME: &str = "de_DE.UTF-8";

/// Life cycles before counting begins: allocations that happen once are made then.
const FIRST: usize = 10;
/// The number of rounds, and of life cycles in a round: memory that grows in each round, and with each life cycle, may
/// be a leak.
const ROUNDS: usize = 5;
const LIVES: usize = 20;
/// And if something did, on to so many rounds: only a leak grows in all of them.
const MOST_ROUNDS: usize = 25;

/// The environment of the process that looks for leaks. With it glibc counts freed memory as free; otherwise glibc
/// keeps some of it in lists of its own, which fill slowly.
pub(super) const EXACT_HEAP: (&str, &str) =
    ("GLIBC_TUNABLES", "glibc.malloc.tcache_count=0:glibc.malloc.mxfast=0");

/// The resources of a process.
struct Held {
    heap: Option<u64>,
    resident: u64,
    mapped: u64,
    files: u64,
    threads: u64,
}

impl Held {
    fn now() -> io::Result<Self> {
        let count = |folder: &str| Ok::<_, io::Error>(fs::read_dir(folder)?.count() as u64);
        let [mapped, resident] = memory(&fs::read_to_string("/proc/self/statm")?)?;
        Ok(Self {
            heap: ffi::c_heap_in_use(),
            resident,
            mapped,
            files: count("/proc/self/fd")?,
            threads: count("/proc/self/task")?,
        })
    }
}

/// Mapped and resident bytes in the text of `/proc/self/statm`.
fn memory(statm: &str) -> io::Result<[u64; 2]> {
    let mut pages = statm.split(' ').map(|pages| pages.parse::<u64>().ok());
    match [pages.next().flatten(), pages.next().flatten()] {
        [Some(mapped), Some(resident)] => Ok([mapped * 4096, resident * 4096]),
        _ => Err(io::Error::other(format!("its memory is not two numbers of pages: {statm:?}"))),
    }
}

/// Runs one life cycle after the other and reports what they leave.
pub(super) fn leaks(life: impl Fn() -> Result<Vec<u8>, String>) -> CheckResult {
    let lives = |count: usize| (0..count).try_for_each(|_| life().map(drop));
    let look = || Held::now().map_err(|error| format!("cannot inspect the process ({error})"));
    lives(FIRST)?;
    let mut held = vec![look()?];
    for round in 1.. {
        lives(LIVES)?;
        held.push(look()?);
        match leak(&held) {
            _ if round < ROUNDS => {}
            Some(_) if round < MOST_ROUNDS => {}
            Some((each, what)) => {
                return Err(format!("leaks {each} {what} each time it is made, used and dropped"));
            }
            None => break,
        }
    }
    Ok(Passed::Passed)
}

/// Resources that grew in every round, and the growth per life.
fn leak(held: &[Held]) -> Option<(u64, &'static str)> {
    let growth = |what: fn(&Held) -> u64, least: u64| {
        let grown = |pair: &[Held]| what(&pair[1]).saturating_sub(what(&pair[0]));
        let each = held.windows(2).map(grown).min().unwrap_or(0) / LIVES as u64;
        (each >= least).then_some(each)
    };
    let rows = [
        (growth(|held| held.heap.unwrap_or(0), 1), "bytes of memory"),
        (growth(|held| held.resident, 4096), "bytes of memory"),
        (growth(|held| held.mapped, 4096), "bytes of mapped memory"),
        (growth(|held| held.files, 1), "open files"),
        (growth(|held| held.threads, 1), "threads"),
    ];
    rows.into_iter().find_map(|(each, what)| Some((each?, what)))
}

/// The child's side of `locale`: a life in few letters.
pub(super) fn fingerprint(life: Result<Vec<u8>, String>) -> Result<String, String> {
    life.map(|bytes| files::hex(&Sha256::digest(&bytes)))
}

/// Writes the locale into a folder; returns the environment that selects it.
pub(super) fn environment(
    folder: &Path,
    variables: &[&'static str],
) -> io::Result<Vec<(&'static str, String)>> {
    fs::create_dir_all(folder.join(NAME))?;
    fs::write(folder.join(NAME).join("LC_NUMERIC"), lc_numeric())?;
    let asked = variables.iter().map(|name| (*name, NAME.to_string()));
    Ok(std::iter::once(("LOCPATH", folder.display().to_string())).chain(asked).collect())
}

/// Numbers with commas in glibc's form: a magic number that names the category, the number of items, the offset of
/// each, and the items.
fn lc_numeric() -> Vec<u8> {
    const MAGIC: u32 = 0x2003_1115 ^ 1;
    let point = |c: char| u32::from(c).to_le_bytes().to_vec();
    let items: [Vec<u8>; 6] = [
        b",\0\0\0".to_vec(),
        b".\0\0\0".to_vec(),
        b"\x03\x03\0\0".to_vec(),
        point(','),
        point('.'),
        b"UTF-8\0".to_vec(),
    ];
    let mut at = 4 * (2 + items.len() as u32);
    let mut file: Vec<u8> = [MAGIC, items.len() as u32].into_iter().flat_map(u32::to_le_bytes).collect();
    for item in &items {
        file.extend(at.to_le_bytes());
        at += item.len() as u32;
    }
    file.extend(items.concat());
    file
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_that_is_not_understood_is_not_zero() {
        assert_eq!(memory("12 3 4 5 0 6 0\n").ok(), Some([12 * 4096, 3 * 4096]));
        for statm in ["", "12", "12 x 4"] {
            assert!(memory(statm).is_err(), "{statm:?}");
        }
    }
}
