//! The agreement of a library's headers: segments describe loading, sections describe content, and both must match. The
//! check detects a flipped bit in either, which could crash or hang the loader.
//!
//! Output of linkers passes; a library without section headers is checked by its segments alone.

use object::{
    Endianness,
    elf::{self, ProgramHeader64, SectionHeader64},
    read::elf::{ProgramHeader, SectionHeader},
};

/// No linker makes more segments, and comparing each with each takes no time.
const MOST_SEGMENTS: usize = 128;
/// Pages are at least this large.
const PAGE: u64 = 4096;
/// Addresses of user space end here.
const ADDRESSES: u64 = 1 << 47;

/// Bytes of the file and their place in memory.
struct Range {
    offset: u64,
    in_file: u64,
    address: u64,
    in_memory: u64,
}

impl Range {
    fn of(segment: &ProgramHeader64<Endianness>, endian: Endianness) -> Self {
        Self {
            offset: segment.p_offset(endian),
            in_file: segment.p_filesz(endian),
            address: segment.p_vaddr(endian),
            in_memory: segment.p_memsz(endian),
        }
    }

    /// True if the range can be loaded.
    fn is_possible(&self) -> bool {
        self.in_file <= self.in_memory
            && self.address.checked_add(self.in_memory).is_some_and(|end| end < ADDRESSES)
            && self.address % PAGE == self.offset % PAGE
    }

    /// True if it contains `size` bytes at an address.
    fn holds(&self, address: u64, size: u64) -> bool {
        let end = address.checked_add(size);
        address >= self.address && end.is_some_and(|end| end <= self.address + self.in_memory)
    }

    /// True if it loads `size` bytes of the file at `offset` to `address`.
    fn shows(&self, address: u64, offset: u64, size: u64) -> bool {
        let into = address.wrapping_sub(self.address);
        offset.checked_sub(self.offset) == Some(into)
            && into.checked_add(size).is_some_and(|end| end <= self.in_file)
    }
}

/// True if the segments agree with each other and with the sections.
pub(super) fn agree(
    segments: &[ProgramHeader64<Endianness>],
    sections: &[SectionHeader64<Endianness>],
    endian: Endianness,
) -> bool {
    let loads: Vec<(Range, &ProgramHeader64<Endianness>)> = segments
        .iter()
        .filter(|segment| segment.p_type(endian) == elf::PT_LOAD)
        .map(|segment| (Range::of(segment, endian), segment))
        .collect();
    let once = [elf::PT_DYNAMIC, elf::PT_TLS];
    segments.len() <= MOST_SEGMENTS
        && loads.iter().all(|(load, _)| load.is_possible())
        && loads.windows(2).all(|pair| pair[0].0.address + pair[0].0.in_memory <= pair[1].0.address)
        && once.iter().all(|kind| segments.iter().filter(|other| other.p_type(endian) == *kind).count() <= 1)
        && segments.iter().all(|segment| segment_agrees(segment, &loads, endian))
        && sections.iter().all(|section| section_agrees(section, segments, &loads, endian))
}

fn segment_agrees(
    segment: &ProgramHeader64<Endianness>,
    loads: &[(Range, &ProgramHeader64<Endianness>)],
    endian: Endianness,
) -> bool {
    let kind = segment.p_type(endian);
    let align = segment.p_align(endian);
    let inner =
        [elf::PT_DYNAMIC, elf::PT_NOTE, elf::PT_PHDR, elf::PT_TLS, elf::PT_GNU_EH_FRAME, elf::PT_GNU_RELRO];
    if kind == elf::PT_LOAD {
        return align == 0 || align.is_power_of_two();
    }
    if !inner.contains(&kind) {
        return true;
    }
    let own = Range::of(segment, endian);
    let Some((load, _)) = loads.iter().find(|(load, _)| load.holds(own.address, own.in_file)) else {
        return false;
    };
    let page_end = (load.address + load.in_memory).next_multiple_of(PAGE);
    let stays = kind != elf::PT_GNU_RELRO
        || own.address.checked_add(own.in_memory).is_some_and(|end| end <= page_end);
    let modest = kind != elf::PT_TLS || (align <= PAGE && own.in_memory <= 1 << 20);
    (align == 0 || align.is_power_of_two())
        && own.in_file <= own.in_memory
        && (own.in_file == 0 || load.shows(own.address, own.offset, own.in_file))
        && stays
        && modest
}

fn section_agrees(
    section: &SectionHeader64<Endianness>,
    segments: &[ProgramHeader64<Endianness>],
    loads: &[(Range, &ProgramHeader64<Endianness>)],
    endian: Endianness,
) -> bool {
    let (flags, kind) = (section.sh_flags(endian), section.sh_type(endian));
    let has = |flag| flags.contains(flag);
    let empty = kind == elf::SHT_NOBITS;
    if !has(elf::SHF_ALLOC) || (empty && has(elf::SHF_TLS)) {
        return true;
    }
    let (address, offset, size) =
        (section.sh_addr(endian), section.sh_offset(endian), section.sh_size(endian));
    let Some((load, segment)) = loads.iter().find(|(load, _)| load.holds(address, size)) else {
        return false;
    };
    let may = |flag| segment.p_flags(endian).contains(flag);
    let is_dynamic = |segment: &ProgramHeader64<Endianness>| {
        segment.p_type(endian) == elf::PT_DYNAMIC
            && (segment.p_vaddr(endian), segment.p_filesz(endian)) == (address, size)
    };
    may(elf::PF_R)
        && (!has(elf::SHF_WRITE) || may(elf::PF_W))
        && (!has(elf::SHF_EXECINSTR) || may(elf::PF_X))
        && (empty || size == 0 || load.shows(address, offset, size))
        && (kind != elf::SHT_DYNAMIC || segments.iter().any(is_dynamic))
        && (!has(elf::SHF_TLS) || segments.iter().any(|segment| segment.p_type(endian) == elf::PT_TLS))
}
