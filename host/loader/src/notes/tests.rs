//! Notes as macros write them are read as they were meant, and damaged ones are refused in a sentence.

use altgrad_plugin_api::{
    note::{self, Note},
    texts,
};

use super::*;

const PLAIN: Descriptor = Descriptor::format("E5M2", "1.2.3", "µ, \"quoted\" \\ and\na line");
const FULL: Descriptor = Descriptor::optimizer("a", "1", "").options(&[
    OptionSpec::float("lr", 0.1).range(0.0, f64::MAX).help("h"),
    OptionSpec::integer("n", i64::MIN).range(-1e300, 5e-324),
    OptionSpec::bool("b", false),
    OptionSpec::text("t", "x").choices(texts!["x", ""]),
    OptionSpec::text_list("l", texts!["a", "b"]),
]);

const NOTES: (
    Note<{ note::build_size(&BuildInfo::CURRENT) }>,
    Note<{ note::descriptor_size(&PLAIN) }>,
    Note<{ note::descriptor_size(&FULL) }>,
) = (Note::of_build(&BuildInfo::CURRENT), Note::of_descriptor(&PLAIN), Note::of_descriptor(&FULL));

/// A note as it should be: no text here has more than 255 bytes.
fn noted(kind: u32, text: &str) -> Vec<u8> {
    let head = [8, text.len() as u32, kind].map(u32::to_ne_bytes).concat();
    let mut note = [&head, NAME.as_slice(), text.as_bytes()].concat();
    note.resize(note.len().next_multiple_of(4), 0);
    note
}

fn built(api_version: &str) -> Vec<u8> {
    noted(BUILD, &format!(r#"{{"api_version":"{api_version}","rustc":"","target":"","cpu_features":""}}"#))
}

fn plugin(id: &str) -> Vec<u8> {
    noted(DESCRIPTOR, &format!(r#"{{"kind":3,"id":"{id}","version":"1","summary":"","new":[{{}}]}}"#))
}

/// A file with that section and nothing else: header, names, section, headers of the sections.
fn library(section: &[u8]) -> Vec<u8> {
    const HEADER: usize = 64;
    const NAMES: &[u8; 32] = b"\0.shstrtab\0\0.note.altgrad\0\0\0\0\0\0\0";
    let start = HEADER + NAMES.len();
    let table = (start + section.len()).next_multiple_of(8);
    let class = if cfg!(target_endian = "little") { 1 } else { 2 };
    let half = |number: u16| number.to_ne_bytes();
    let mut file = [b"\x7fELF\x02", &[class][..], &[1], &[0; 9]].concat();
    file.extend([half(3), half(62), half(1), half(0)].concat());
    file.extend([0, 0, table as u64].map(u64::to_ne_bytes).concat());
    file.extend([half(0), half(0), half(64), half(0), half(0), half(64), half(3), half(1)].concat());
    file.extend_from_slice(NAMES);
    file.extend_from_slice(section);
    file.resize(table, 0);
    for (name, kind, place, size) in
        [(0, 0, 0, 0), (1, 3, HEADER, NAMES.len()), (12, 7, start, section.len())]
    {
        file.extend([name, kind].map(u32::to_ne_bytes).concat());
        file.extend([0, 0, place as u64, size as u64, 0, 4, 0].map(u64::to_ne_bytes).concat());
    }
    file
}

fn refusal(section: &[u8]) -> String {
    let refusal = read(&library(section)).unwrap_err();
    assert!(refusal.hint.is_some() && refusal.message.lines().count() == 1);
    refusal.message.replace("plugin library refused: ", "")
}

#[test]
fn what_macros_write_is_read_as_it_was_meant() {
    let (build, plain, full) = (NOTES.0.bytes(), NOTES.1.bytes(), NOTES.2.bytes());
    for section in
        [[&build[..], plain, full].concat(), [&full[..], &noted(9, "later"), plain, build].concat()]
    {
        let notes = read(&library(&section)).unwrap().unwrap();
        assert_eq!(notes, Notes { build: BuildInfo::CURRENT, descriptors: vec![PLAIN, FULL] });
    }
}

#[test]
fn a_library_may_have_no_notes_and_keys_that_are_not_known_are_passed_over() {
    assert_eq!(read(&library(&[])).unwrap(), None);
    assert_eq!(read(&library(&built("0.9"))).unwrap(), None);
    let closed = plugin("csv\",\"x\":\"");
    let notes = read(&library(&[built("C 0.1"), closed].concat())).unwrap().unwrap();
    assert_eq!(notes.descriptors, [Descriptor::sink("csv", "1", "")]);
}

#[test]
fn damaged_notes_are_refused_in_a_sentence() {
    let build = built(&BuildInfo::CURRENT.api_version);
    let with = |note: &[u8]| refusal(&[&build, note].concat());
    let cut = |note: Vec<u8>, bytes: usize| note[..note.len() - bytes].to_vec();
    for (said, expected) in [
        (with(&[0; 8]), "its notes are damaged: ELF note is too short"),
        (with(&cut(plugin("csv"), 8)), "its notes are damaged: Invalid ELF note descsz"),
        (with(&plugin("\u{1}")), "its notes are damaged: control character"),
        (with(&noted(DESCRIPTOR, "{}")), "its notes are damaged: missing field `kind`"),
        (with(&noted(DESCRIPTOR, "")), "its notes are damaged: EOF"),
        (refusal(&plugin("csv")), "its notes are damaged: 0 say how it was built, not one"),
        (refusal(&[build.clone(), build.clone(), plugin("csv")].concat()), "its notes are damaged: 2 say"),
        (
            with(&noted(DESCRIPTOR, "\0").repeat(MOST_NOTES)),
            "its notes are damaged: there are more than 4096",
        ),
        (with(&vec![0; MOST_BYTES]), "its notes are damaged: they have 1048"),
        (with(&[&noted(1, "")[..12], b"another\0"].concat()), "its notes are damaged: one has another name"),
    ] {
        assert!(said.starts_with(expected), "{said}, not {expected}");
    }
    let quoted = read(&library(&[build.clone(), plugin("a\"b")].concat())).unwrap_err();
    assert!(quoted.hint.unwrap().contains("`ALTGRAD_DESCRIBE_FORMAT` have no quotation marks"));
    let option = |default: &str| {
        let option = format!(r#"{{"name":"a","default":{default}}}"#);
        with(&noted(
            DESCRIPTOR,
            &format!(r#"{{"kind":1,"id":"A","version":"","summary":"","options":[{option}]}}"#),
        ))
    };
    assert!(option(r#"{"float":"3fb"}"#).contains("`3fb` is no double"));
    assert!(option(&format!(r#"{{"{}":1}}"#, "x".repeat(500))).len() < 200);
}

#[test]
fn notes_of_another_version_are_refused_before_they_are_read() {
    let section = [built("0.3.1"), noted(DESCRIPTOR, "written in another way")].concat();
    assert_eq!(refusal(&section), "it was built against plugin-api 0.3, this host has 0.2");
}
