//! The bytes of notes, made in constants as in a plugin.

use super::*;
use crate::texts;

const PLAIN: Descriptor = Descriptor::format("E5M2", "1.2.3", "µ, \"quoted\" \\ and\na line");
const FULL: Descriptor = Descriptor::optimizer("a", "1", "")
    .options(&[
        OptionSpec::float("lr", 0.1).range(0.0, f64::INFINITY).help("h"),
        OptionSpec::integer("n", i64::MIN),
        OptionSpec::bool("b", true),
        OptionSpec::text("t", "x").choices(texts!["x", ""]),
        OptionSpec::text_list("l", texts![]),
    ])
    .by("us", "https://a.example");

fn text(note: &[u8]) -> &str {
    let size = usize::from(note[SIZE]) | usize::from(note[SIZE + 1]) << 8;
    assert!(note[HEAD + size..].iter().all(|&byte| byte == 0) && note.len() - HEAD - size < 4);
    std::str::from_utf8(&note[HEAD..HEAD + size]).unwrap_or_default()
}

#[test]
fn notes_are_made_in_constants_and_their_texts_are_json() {
    const NOTE: Note<{ descriptor_size(&PLAIN) }> = Note::of_descriptor(&PLAIN);
    let plain = r#"{"kind":1,"id":"E5M2","version":"1.2.3","summary":"µ, \"quoted\" \\ and\u000aa line"}"#;
    assert_eq!(text(NOTE.bytes()), plain);
    const OPTIONS: Note<{ descriptor_size(&FULL) }> = Note::of_descriptor(&FULL);
    let options = [
        r#"{"name":"lr","default":{"float":"3fb999999999999a"},"min":"0000000000000000","help":"h"}"#,
        r#"{"name":"n","default":{"integer":-9223372036854775808}}"#,
        r#"{"name":"b","default":{"bool":true}}"#,
        r#"{"name":"t","default":{"text":"x"},"choices":["x",""]}"#,
        r#"{"name":"l","default":{"text_list":[]}}"#,
    ]
    .join(",");
    let full = format!(
        r#"{{"kind":2,"id":"a","version":"1","summary":"","options":[{options}],"vendor":"us","homepage":"https://a.example"}}"#
    );
    assert_eq!(text(OPTIONS.bytes()), full);
}

#[test]
fn a_note_begins_with_sizes_type_and_name_and_fills_four_bytes() {
    const NOTE: Note<{ build_size(&BuildInfo::CURRENT) }> = Note::of_build(&BuildInfo::CURRENT);
    let bytes = NOTE.bytes();
    assert_eq!(bytes[..4], 8u32.to_ne_bytes());
    assert_eq!(bytes[8..12], BUILD.to_ne_bytes());
    assert_eq!(bytes[12..HEAD], NAME);
    assert_eq!((bytes.len() % 4, align_of_val(&NOTE)), (0, 4));
    assert!(text(bytes).starts_with(r#"{"api_version":"0."#), "{}", text(bytes));
}
