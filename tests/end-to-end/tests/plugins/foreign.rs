//! Libraries that were built for another host: each is a valid one with a few bytes changed, and is refused with a
//! message before anything in it runs. Their descriptions are read from their notes, without loading them.

use std::fs;

use altgrad_end_to_end::{Bench, Outcome, plugin, skipped};
use object::{Object, ObjectSegment, ObjectSymbol, RelocationTarget, read::elf::ElfFile64};

/// abi_stable's name for a library's export.
const HEADER: &[u8] = b"_1as_0lib_1header_0root_bmodule_bloader";
/// The offset of the version (a text), and of the flag for a type layout (0: present, 1: absent).
const VERSION: u64 = 72;
const LAYOUT: u64 = 88;

/// A library's bytes, to be changed.
struct Library {
    bytes: Vec<u8>,
}

impl Library {
    fn sound() -> Self {
        Self { bytes: fs::read(plugin("e5m2.so")).unwrap() }
    }

    fn elf(&self) -> ElfFile64<'_> {
        ElfFile64::parse(self.bytes.as_slice()).unwrap()
    }

    /// Place in the file of an address in memory.
    fn place(&self, address: u64) -> usize {
        let elf = self.elf();
        let holds = |start: u64, size: u64| (start..start + size).contains(&address);
        let segment =
            elf.segments().find(|segment| holds(segment.address(), segment.file_range().1)).unwrap();
        (address - segment.address() + segment.file_range().0) as usize
    }

    fn header(&self) -> u64 {
        let elf = self.elf();
        elf.dynamic_symbols().find(|symbol| symbol.name_bytes() == Ok(HEADER)).unwrap().address()
    }

    /// The target of the pointer at an address.
    fn target(&self, address: u64) -> u64 {
        let elf = self.elf();
        let mut all = elf.dynamic_relocations().unwrap();
        let (_, found) = all.find(|(at, _)| *at == address).unwrap();
        assert_eq!(found.target(), RelocationTarget::Absolute);
        found.addend() as u64
    }

    /// Replaces a text by one of the same length, everywhere; returns whether it was present.
    fn replace(&mut self, from: &str, to: &str) -> bool {
        assert_eq!(from.len(), to.len());
        let places: Vec<usize> = (0..self.bytes.len().saturating_sub(from.len()))
            .filter(|at| self.bytes[*at..].starts_with(from.as_bytes()))
            .collect();
        for at in &places {
            self.bytes[*at..at + to.len()].copy_from_slice(to.as_bytes());
        }
        !places.is_empty()
    }

    /// The host's description of it, without loading it.
    fn inspected(&self) -> Outcome {
        self.told_of(&["plugins", "inspect", "foreign.so"])
    }

    /// The host's message when it loads it.
    fn loaded(&self) -> Outcome {
        self.told_of(&["plugins", "check-one", "foreign.so", "answer"])
    }

    fn told_of(&self, command: &[&str]) -> Outcome {
        let bench = Bench::new();
        fs::write(bench.path("foreign.so"), &self.bytes).unwrap();
        bench.host(command)
    }
}

#[track_caller]
fn refused(outcome: &Outcome, message: &str, hint: &str) {
    assert_eq!(outcome.code, 3, "{}", outcome.stderr);
    let first = outcome.stderr.lines().next().unwrap_or_default();
    assert!(
        first.starts_with("error: plugin library refused: ") && first.contains(message),
        "{}",
        outcome.stderr
    );
    assert!(outcome.stderr.contains("foreign.so") && outcome.stderr.contains(hint), "{}", outcome.stderr);
    assert!(outcome.stderr.lines().count() < 6, "one sentence, not a report:\n{}", outcome.stderr);
}

#[test]
fn the_unchanged_library_is_loaded() {
    assert_eq!(Library::sound().loaded().code, 0);
}

/// The description from the notes equals that from loading, except for the loader's own checks.
#[test]
fn a_library_that_cannot_be_loaded_is_inspected_by_its_notes() {
    let sound = Library::sound().inspected();
    assert_eq!(sound.code, 0, "{}", sound.stderr);
    assert!(
        sound.stdout.contains("\nformat E5M2 ") && sound.stdout.contains("  variant = \"\""),
        "{}",
        sound.stdout
    );
    let mut library = Library::sound();
    assert!(library.replace("make_format;a", "make_former;a"));
    let unlike = |outcome: &Outcome| {
        outcome
            .stdout
            .lines()
            .filter(|line| !line.starts_with("sha256") && !line.starts_with("library"))
            .count()
    };
    let inspected = library.inspected();
    assert_eq!((inspected.code, unlike(&inspected)), (0, unlike(&sound)), "{}", inspected.stderr);
    let bench = Bench::new();
    fs::create_dir(bench.path("plugins")).unwrap();
    fs::write(bench.path("plugins/foreign.so"), &library.bytes).unwrap();
    let listed = bench.host(&["plugins", "list", "--dir", "plugins"]);
    assert!(listed.code == 0 && listed.stdout.contains("E5M2"), "{}{}", listed.stdout, listed.stderr);
}

#[test]
fn a_library_whose_notes_say_otherwise_than_its_code_is_refused_by_name() {
    let rows = [
        (
            "\"id\":\"E5M2\"",
            "\"id\":\"E5M9\"",
            "its notes list the format `E5M9`, which its code does not have",
        ),
        (
            "\"summary\":\"8-bit",
            "\"summary\":\"9-bit",
            "its notes describe the format `E5M2` otherwise than its code",
        ),
        ("\"rustc\":\"rustc", "\"rustc\":\"rusty", "its notes say otherwise than its code how it was built"),
        ("{\"kind\":1,", "{\"kind\":9,", "its plugin `E5M2` is of unknown kind 9"),
        ("{\"kind\":1,", "{\"kind\"=1,", "its notes are damaged: expected `:`"),
    ];
    for (from, to, message) in rows {
        let mut library = Library::sound();
        assert!(library.replace(from, to), "{from}");
        let outcome = library.loaded();
        let first = outcome.stderr.lines().next().unwrap_or_default();
        assert!(outcome.code == 3 && first.contains(message), "{from}: {}", outcome.stderr);
    }
}

#[test]
fn a_library_whose_types_differ_is_refused_with_a_report() {
    let mut library = Library::sound();
    assert!(library.replace("make_format;a", "make_former;a"));
    let outcome = library.loaded();
    refused(&outcome, "its types differ from the host's", "rebuild it against plugin-api");
    assert_eq!(outcome.stderr.lines().count(), 3, "{}", outcome.stderr);
    // The checker's own report has hundreds of lines and is printed on request.
    let bench = Bench::new();
    fs::write(bench.path("foreign.so"), &library.bytes).unwrap();
    let command = ["plugins", "check-one", "foreign.so", "answer"];
    let outcome = bench.host_with(&command, &[("ALTGRAD_LOG", "debug")]);
    assert_eq!(outcome.code, 3, "{}", outcome.stderr);
    let named = outcome.stderr.lines().filter(|line| line.contains("make_former")).count();
    assert!(outcome.stderr.lines().count() > 20 && named > 1, "{}", outcome.stderr);
}

#[test]
fn a_library_without_a_type_layout_is_refused() {
    let mut library = Library::sound();
    let place = library.place(library.header() + LAYOUT);
    assert_eq!(library.bytes[place], 0, "the header is laid out otherwise than this test believes");
    library.bytes[place] = 1;
    refused(&library.loaded(), "it carries no type layout", "export_plugin!");
}

/// The version is in a library twice: where abi_stable has it, and in the notes, which are read first.
#[test]
fn a_library_of_another_api_version_is_refused_by_name() {
    let (said, hint) =
        ("it was built against plugin-api 0.9, this host has 0.2", "rebuild it against plugin-api 0.2");
    let mut library = Library::sound();
    let place = library.place(library.target(library.header() + VERSION));
    assert_eq!(
        &library.bytes[place..place + 4],
        b"0.2.",
        "the version stands elsewhere than this test believes"
    );
    library.bytes[place + 2] = b'9';
    refused(&library.loaded(), said, hint);
    let mut library = Library::sound();
    assert!(library.replace("\"api_version\":\"0.2.", "\"api_version\":\"0.9."));
    refused(&library.loaded(), said, hint);
    refused(&library.inspected(), said, hint);
}

#[test]
fn a_library_that_needs_missing_cpu_features_is_refused() {
    let known = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let has = |feature: &str| known.split_whitespace().any(|word| word == feature);
    // Only some old processors have the first, only AMD's the second.
    let missing = ["tbm", "sse4a", "avx512f", "avx2"].into_iter().find(|name| !has(name));
    let (Some(missing), "x86_64") = (missing, std::env::consts::ARCH) else {
        skipped(
            "a_library_that_needs_missing_cpu_features_is_refused",
            "it lacks none that a library could need",
        );
        return;
    };
    let mut library = Library::sound();
    let built = "fxsr,sse,sse2";
    // Empty names between commas count for nothing.
    assert!(library.replace(built, &format!("{missing:,<width$}", width = built.len())));
    refused(
        &library.inspected(),
        &format!("it needs CPU features this machine lacks: {missing}"),
        "target-cpu",
    );
}

/// Without the static check, one in six of these ended the host with a signal or hung it, in the dynamic loader.
#[test]
fn damaged_program_headers_never_end_the_host() {
    let sound = Library::sound();
    let number = |at: usize| u64::from_le_bytes(sound.bytes[at..at + 8].try_into().unwrap());
    let (table, count) = (number(32) as usize, usize::from(sound.bytes[56]));
    let mut refusals = 0;
    for header in 0..count {
        // Type and flags, offset, address, size in the file, size in memory, alignment.
        for field in [0, 8, 16, 32, 40, 48] {
            for change in [|old: u64| old ^ 1 << 1, |old: u64| old.wrapping_add(0x1000)] {
                let at = table + 56 * header + field;
                let mut library = Library { bytes: sound.bytes.clone() };
                library.bytes[at..at + 8].copy_from_slice(&change(number(at)).to_le_bytes());
                let outcome = library.loaded();
                assert!([0, 3].contains(&outcome.code), "header {header}, field {field}: {}", outcome.stderr);
                refusals += usize::from(outcome.code == 3);
            }
        }
    }
    assert!(refusals > count, "{refusals} refused");
}
