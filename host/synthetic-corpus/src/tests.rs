//! Tests of the generator's guarantees: purity, uniqueness, ASCII, valid references, spread of length.
#![allow(clippy::unwrap_used)]

use super::{Act, MIN_BYTES, act, corpus};
use std::collections::{BTreeMap, BTreeSet};

/// FNV-1a of `bytes`, enough to notice a change.
fn fnv1a(bytes: &[u8]) -> u64 {
    bytes
        .iter()
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3))
}

/// Number of paragraphs of each article of an act, by article number.
fn articles(text: &str) -> BTreeMap<usize, usize> {
    let mut found = BTreeMap::new();
    let mut current = 0;
    for line in text.lines() {
        if line.starts_with("Done at ") {
            break;
        }
        if let Some(number) = line.strip_prefix("Article ").and_then(|rest| rest.parse().ok()) {
            current = number;
            assert!(found.insert(current, 0).is_none(), "article {current} occurs twice");
        } else if let Some((number, _)) = line.split_once(". ")
            && let Ok(number) = number.parse::<usize>()
            && let Some(count) = found.get_mut(&current)
        {
            assert_eq!(number, *count + 1, "paragraphs are numbered in order");
            *count = number;
        }
    }
    found
}

/// Reads a number at the start of `text`; returns it with the rest.
fn number(text: &str) -> Option<(usize, &str)> {
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    Some((text[..end].parse().ok()?, &text[end..]))
}

/// True if the text after a reference names another act.
fn names_another_act(rest: &str) -> bool {
    rest.starts_with(" thereof") || (rest.starts_with(" of ") && !rest.starts_with(" of this "))
}

/// Checks every reference of `act` to its own articles; returns how many there were.
fn check_references(act: &Act) -> usize {
    let exists = articles(&act.text);
    let (mut checked, mut rest) = (0, act.text.as_str());
    while let Some(place) = rest.find("Article") {
        let heading = place > 0 && rest.as_bytes()[place - 1] == b'\n';
        rest = &rest[place + "Article".len()..];
        rest = rest.strip_prefix('s').unwrap_or(rest);
        let Some((first, mut after)) = rest.strip_prefix(' ').and_then(number) else {
            continue;
        };
        if heading && after.starts_with('\n') {
            continue;
        }
        let mut paragraph = None;
        if let Some((value, tail)) = after.strip_prefix('(').and_then(number) {
            paragraph = Some(value);
            after = tail.strip_prefix(')').unwrap();
        }
        if names_another_act(after) {
            continue;
        }
        let paragraphs = exists.get(&first).unwrap_or_else(|| panic!("no Article {first}:\n{}", act.text));
        assert!(paragraph.unwrap_or(0) <= *paragraphs, "no Article {first}({paragraph:?}):\n{}", act.text);
        let last = after.strip_prefix(" to ").or_else(|| after.strip_prefix(" and "));
        if let Some((last, _)) = last.and_then(number) {
            assert!(exists.contains_key(&last), "no Article {last}:\n{}", act.text);
        }
        checked += 1;
    }
    checked
}

#[test]
fn an_act_depends_on_seed_and_index_alone() {
    let forward: Vec<Act> = (0..40).map(|index| act(7, index)).collect();
    for index in (0..40).rev() {
        assert_eq!(act(7, index), forward[index as usize]);
    }
    assert!((0..40).all(|index| act(8, index).text != forward[index as usize].text));
    assert_eq!(corpus(7, 20_000)[..], forward[..corpus(7, 20_000).len()]);
}

#[test]
fn the_default_corpus_keeps_its_promises() {
    let acts = corpus(1, MIN_BYTES);
    let bytes: usize = acts.iter().map(|act| act.text.len()).sum();
    assert!(bytes >= MIN_BYTES && bytes - acts.last().unwrap().text.len() < MIN_BYTES);
    assert_eq!(acts.iter().map(|act| &act.text).collect::<BTreeSet<_>>().len(), acts.len());
    assert_eq!(acts.iter().map(|act| &act.title).collect::<BTreeSet<_>>().len(), acts.len());
    for act in &acts {
        assert!(act.text.starts_with(&format!("{}\n", act.title)) && act.text.ends_with('\n'));
        assert!(act.text.bytes().all(|byte| byte == b'\n' || (b' '..=b'~').contains(&byte)));
        assert!(!act.title.contains('\n'));
    }
    assert!(acts.iter().map(|act| act.text.len()).min().unwrap() < 1500);
    assert!(acts.iter().map(|act| act.text.len()).max().unwrap() > 10_000);
}

#[test]
fn no_placeholder_and_no_untidy_text_remains() {
    for act in corpus(2, MIN_BYTES) {
        for mark in ["{", "}", "  ", " \n", "\n\n", "..", " .", " ,", ";.", "\\"] {
            assert!(!act.text.contains(mark), "{mark:?} in\n{}", act.text);
        }
    }
}

#[test]
fn every_reference_within_an_act_has_its_article() {
    let checked: usize = corpus(3, MIN_BYTES).iter().map(check_references).sum();
    assert!(checked > 3000, "only {checked} references were found");
}

#[test]
fn titles_stay_unique_far_beyond_the_default_corpus() {
    // Kind, number and year follow `No` or the kind in a title, so distinct pairs give distinct titles.
    let pairs: BTreeSet<(u64, u32)> =
        (0..400_000).map(|index| super::identity::number_and_year(5, index)).collect();
    assert_eq!(pairs.len(), 400_000);
    assert!(!act(u64::MAX, u64::MAX).text.is_empty());
}

/// The data a bench result was obtained on must not change unnoticed. If the generator is changed on
/// purpose, these values change with it, and results before and after are not comparable.
#[test]
fn the_generated_bytes_are_frozen() {
    assert_eq!(fnv1a(act(0, 0).text.as_bytes()), 0x7c00_2312_1c41_7efc);
    let all: Vec<u8> = corpus(0, 1 << 20).into_iter().flat_map(|act| act.text.into_bytes()).collect();
    assert_eq!(fnv1a(&all), 0x5108_93d7_1ce7_8836);
}
