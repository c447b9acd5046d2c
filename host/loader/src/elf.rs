//! Static checks of a library file before the dynamic loader opens it.
//!
//! The dynamic loader maps a file without checks: a truncated library ends the process with SIGBUS, and a library for
//! another machine is reported as "no such file". These checks report the same faults, and headers that contradict each
//! other, in one sentence each. They do not find damage within the segments: pin a library's sha256 for that.

mod agreement;

use object::{
    Endianness,
    elf::{self, FileHeader64},
    read::elf::{FileHeader, ProgramHeader},
};

/// The fault of `bytes` as a plugin library for this machine, and the advice to the user.
#[must_use]
pub fn fault(bytes: &[u8]) -> Option<(String, String)> {
    check(bytes).err()
}

fn check(bytes: &[u8]) -> Result<(), (String, String)> {
    let rebuild = || "rebuild the plugin for this machine".to_string();
    if bytes.is_empty() {
        return Err(("the file is empty".into(), "copy the library again".into()));
    }
    if !bytes.starts_with(&elf::ELFMAG) {
        let hint = "a plugin is a `cdylib` built by cargo; see `plugins inspect`".to_string();
        return Err(("the file is not a shared library (no ELF header)".into(), hint));
    }
    if bytes.get(4) != Some(&elf::ELFCLASS64.0) {
        return Err(("the library is not a 64-bit one".into(), rebuild()));
    }
    let cut = |what: &str| {
        (
            format!("the library is cut short: {what} end beyond the file"),
            "copy or build it again".to_string(),
        )
    };
    let header = FileHeader64::<Endianness>::parse(bytes).map_err(|_| cut("its headers"))?;
    let endian = header.endian().map_err(|_| ("unknown byte order".to_string(), rebuild()))?;
    if header.e_machine(endian) != HOST_MACHINE {
        let machine = header.e_machine(endian).0;
        return Err((format!("the library is for another machine (ELF machine {machine})"), rebuild()));
    }
    if header.e_type(endian) != elf::ET_DYN {
        return Err(("the file is an ELF file but not a shared library".into(), rebuild()));
    }
    let segments = header.program_headers(endian, bytes).map_err(|_| cut("its program headers"))?;
    if segments.iter().any(|segment| !fits(segment.file_range(endian), bytes.len())) {
        return Err(cut("its segments"));
    }
    let loaded = |kind| segments.iter().filter(move |segment| segment.p_type(endian) == kind);
    let holds = |outer: &_, inner: &_| contains(address(outer, endian), address(inner, endian));
    // Only one: the linker makes one, and comparing many with many takes too long.
    let mut dynamic = loaded(elf::PT_DYNAMIC);
    let (only, more) = (dynamic.next(), dynamic.next().is_some());
    let is_loaded = only.is_some_and(|dynamic| loaded(elf::PT_LOAD).any(|segment| holds(segment, dynamic)));
    if more || !is_loaded {
        return Err(("the library is damaged: its dynamic section is not in it".into(), rebuild()));
    }
    let sections = (
        header.e_shoff(endian),
        u64::from(header.e_shnum(endian)).saturating_mul(u64::from(header.e_shentsize(endian))),
    );
    if !fits(sections, bytes.len()) {
        return Err(cut("its section headers"));
    }
    let sections = header.section_headers(endian, bytes).unwrap_or_default();
    if !agreement::agree(segments, sections, endian) {
        return Err(("the library is damaged: its headers contradict each other".into(), rebuild()));
    }
    Ok(())
}

/// True if the library searches its own folder for others: `$ORIGIN` is in its search path or in its needed libraries.
/// False for a damaged library.
#[must_use]
pub fn looks_beside_itself(bytes: &[u8]) -> bool {
    let read = || -> object::Result<bool> {
        let header = FileHeader64::<Endianness>::parse(bytes)?;
        let endian = header.endian()?;
        let dynamic = header.sections(endian, bytes)?.dynamic_table(endian, bytes)?;
        let names_origin = |text: &[u8]| {
            let text = String::from_utf8_lossy(text);
            text.contains("$ORIGIN") || text.contains("${ORIGIN}")
        };
        Ok(dynamic
            .iter()
            .filter(|entry| [elf::DT_RUNPATH, elf::DT_RPATH, elf::DT_NEEDED].contains(&entry.tag))
            .any(|entry| dynamic.string(entry).is_ok_and(names_origin)))
    };
    read().unwrap_or(false)
}

/// The memory range of a segment, `(start, size)`.
fn address(segment: &elf::ProgramHeader64<Endianness>, endian: Endianness) -> (u64, u64) {
    (segment.p_vaddr(endian), segment.p_memsz(endian))
}

/// True if the first range contains the second.
fn contains((start, size): (u64, u64), (inner, inner_size): (u64, u64)) -> bool {
    inner >= start && inner.saturating_add(inner_size) <= start.saturating_add(size)
}

/// True if `(offset, size)` lies inside a file of `len` bytes.
fn fits((offset, size): (u64, u64), len: usize) -> bool {
    offset.checked_add(size).is_some_and(|end| end <= len as u64)
}

#[cfg(target_arch = "x86_64")]
const HOST_MACHINE: elf::Machine = elf::EM_X86_64;
#[cfg(target_arch = "aarch64")]
const HOST_MACHINE: elf::Machine = elf::EM_AARCH64;

#[cfg(test)]
mod tests {
    use altgrad_end_to_end::skipped;

    use super::*;

    fn message(bytes: &[u8]) -> String {
        fault(bytes).map_or("fine".into(), |(message, _)| message)
    }

    #[test]
    fn what_is_no_library_is_said_to_be_none() {
        assert_eq!(message(b""), "the file is empty");
        assert_eq!(message(b"# just text\n"), "the file is not a shared library (no ELF header)");
        assert_eq!(message(b"\x7fELF\x01\x01\x01"), "the library is not a 64-bit one");
        assert!(message(b"\x7fELF\x02\x01\x01").contains("cut short"));
    }

    #[test]
    fn the_test_binary_itself_passes_up_to_its_last_byte() {
        let Ok(bytes) = std::env::current_exe().and_then(std::fs::read) else {
            return skipped("the_test_binary_itself_passes_up_to_its_last_byte", "it cannot be read");
        };
        assert_eq!(message(&bytes), "fine");
        for keep in [70, bytes.len() / 2, bytes.len() - 1] {
            assert!(message(&bytes[..keep]).contains("cut short"), "{keep} bytes kept");
        }
    }
}
