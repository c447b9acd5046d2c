//! The length of the README, and of the sentences of all pages.

use std::fs;

use super::{root, sources::files_named};

/// Words of the README, its code included.
const README_WORDS: usize = 900;
/// The median length of a page's sentences, in words.
const MEDIAN: usize = 18;

/// The words of each sentence of a page. Code, tables and headings have none; a list's item begins one.
fn sentences(page: &str) -> Vec<usize> {
    // Every second part lies between two fences.
    let text: String = page.split("```").step_by(2).collect();
    let mut found = Vec::new();
    let mut words = 0;
    let mut end = |words: &mut usize| {
        if *words > 0 {
            found.push(std::mem::take(words));
        }
    };
    for line in text.lines().map(str::trim) {
        let starts = line.is_empty() || line.starts_with(['#', '|', '<', '!', '-', '*']);
        if starts {
            end(&mut words);
        }
        if line.starts_with(['#', '|', '<', '!']) {
            continue;
        }
        for word in line.trim_start_matches("- ").split_whitespace() {
            words += 1;
            if word.trim_end_matches([')', '*', '"', '`']).ends_with(['.', '?', '!', ':', ';']) {
                end(&mut words);
            }
        }
    }
    end(&mut words);
    found
}

fn median(mut lengths: Vec<usize>) -> usize {
    lengths.sort_unstable();
    lengths[lengths.len() / 2]
}

#[test]
fn sentences_of_the_pages_are_short() {
    let pages = files_named(".md");
    assert!(pages.len() > 40, "{} pages", pages.len());
    let long: Vec<String> = pages
        .iter()
        .map(|(path, text)| (path, sentences(text)))
        .filter(|(_, lengths)| !lengths.is_empty())
        .map(|(path, lengths)| (path, median(lengths)))
        .filter(|(_, median)| *median > MEDIAN)
        .map(|(path, median)| format!("{path}: {median}"))
        .collect();
    assert!(long.is_empty(), "the median sentence has more than {MEDIAN} words: {long:#?}");
}

#[test]
fn the_readme_is_an_abstract() {
    let words = fs::read_to_string(root().join("README.md")).unwrap().split_whitespace().count();
    assert!(words <= README_WORDS, "README.md has {words} words");
}

#[test]
fn sentences_end_at_their_marks() {
    let page = "# A heading\n\nOne two. Three\nfour five: six.\n\n- seven eight\n- nine\n\n| a | b |\n\n```\ncode here.\n```\nTen";
    assert_eq!(sentences(page), [2, 3, 1, 2, 1, 1]);
    assert_eq!(median(vec![9, 1, 2]), 2);
}
