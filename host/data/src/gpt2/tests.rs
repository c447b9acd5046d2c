//! The tokenizer compared with other implementations on the same text.

use altgrad_base::random::{self, Stream};
use altgrad_end_to_end::skipped;
use rand::RngExt;
use serde::Deserialize;

use super::*;

#[derive(Deserialize)]
struct Golden {
    cases: Vec<Case>,
}

#[derive(Deserialize)]
struct Case {
    text: String,
    ids: Vec<u16>,
}

fn ids(text: &str) -> Vec<u16> {
    let mut ids = Vec::new();
    Gpt2Encoder::new().unwrap().encode(text, &mut ids);
    ids
}

fn slow(text: &str) -> Vec<u16> {
    ranks().unwrap().encode_ordinary(text).into_iter().map(|id| id as u16).collect()
}

#[test]
fn ids_are_those_of_python() {
    let golden: Golden = serde_json::from_str(include_str!("golden.json")).unwrap();
    assert!(golden.cases.len() > 20);
    for case in golden.cases {
        assert_eq!(ids(&case.text), case.ids, "{:?}", case.text);
        assert_eq!(decode(&case.ids).unwrap(), case.text.as_bytes());
    }
}

/// The strings of a folder with `golden.json`: a list of texts and their ids.
#[test]
fn ids_are_those_of_a_given_folder() {
    let Ok(folder) = std::env::var("ALTGRAD_GPT2_GOLDEN") else {
        let why = "ALTGRAD_GPT2_GOLDEN names no folder with golden.json";
        return skipped("ids_are_those_of_a_given_folder", why);
    };
    let text = std::fs::read(std::path::Path::new(&folder).join("golden.json")).unwrap();
    let cases: Vec<Case> = serde_json::from_slice(&text).unwrap();
    for case in &cases {
        assert_eq!(ids(&case.text), case.ids, "{:?}", case.text);
    }
    println!("{} texts of {folder}", cases.len());
}

/// Characters where the pattern's alternatives meet.
const ALPHABET: &[&str] = &[
    " ",
    " ",
    "  ",
    "\n",
    "\r",
    "\t",
    "\u{a0}",
    "\u{2003}",
    "\u{3000}",
    "'",
    "'s",
    "'ll",
    "'re",
    "'v",
    "a",
    "s",
    "Z",
    "é",
    "ß",
    "Б",
    "中",
    "ⅳ",
    "½",
    "٣",
    "7",
    "0",
    ".",
    "-",
    "_",
    "—",
    "😀",
    "\u{301}",
    "\u{ad}",
    "\u{feff}",
    "\0",
    "<|endoftext|>",
];

#[test]
fn pieces_are_those_of_the_pattern() {
    let mut encoder = Gpt2Encoder::new().unwrap();
    for counter in 0..3000 {
        let mut generator = random::at(7, Stream::Sampling, counter);
        let len = generator.random_range(0..24);
        let text: String = (0..len).map(|_| ALPHABET[generator.random_range(0..ALPHABET.len())]).collect();
        let mut fast = Vec::new();
        encoder.encode(&text, &mut fast);
        assert_eq!(fast, slow(&text), "{text:?}");
        assert_eq!(pieces::pieces(&text).collect::<String>(), text);
    }
}

/// Quadratic merging would take hours here, and a backtracking pattern might fail.
#[test]
fn a_piece_may_be_as_long_as_it_likes() {
    for unit in ["a", " ", "\n", "-", "7", "é"] {
        let text = format!("{}x", unit.repeat(300_000));
        assert_eq!(decode(&ids(&text)).unwrap(), text.as_bytes());
    }
}

#[test]
fn what_is_remembered_is_bounded() {
    let mut encoder = Gpt2Encoder::new().unwrap();
    let text: String = (0..MOST_REMEMBERED + 1000).map(|n| format!(" {n}")).collect();
    let mut fast = Vec::new();
    encoder.encode(&text, &mut fast);
    assert!(encoder.known.len() <= MOST_REMEMBERED);
    assert_eq!(decode(&fast).unwrap(), text.as_bytes());
}

#[test]
fn ids_beyond_the_vocabulary_have_no_text() {
    assert_eq!(decode(&[END_OF_TEXT]).unwrap(), b"<|endoftext|>");
    assert!(decode(&[50257]).is_err());
}
