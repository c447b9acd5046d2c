//! Citations of docs/numerics.md: each names sections that exist.

use std::{collections::BTreeSet, fs};

use super::{root, sources::files_named};

/// The page, as citations name it.
const PAGE: &str = "numerics.md";
/// The marks of comments, which may lie between the words of a citation.
const MARKS: [&str; 4] = ["//", "///", "//!", "#"];

/// The number of a section with whatever follows it: `9.10).`.
fn number(word: &str) -> Option<&str> {
    let number = word.trim_end_matches(|letter: char| !letter.is_ascii_digit());
    let is_number = |number: &str| number.split('.').all(|part| part.parse::<u32>().is_ok());
    is_number(number).then_some(number)
}

/// The sections that a text cites as in `docs/numerics.md, sections 4.1 and 9.10 to 9.15`.
fn cited(text: &str) -> Vec<&str> {
    let words: Vec<&str> = text.split_whitespace().filter(|word| !MARKS.contains(word)).collect();
    let mut found = Vec::new();
    for (at, pair) in words.windows(2).enumerate() {
        if !pair[0].contains(PAGE) || !["section", "sections"].contains(&pair[1]) {
            continue;
        }
        for word in &words[at + 2..] {
            match number(word) {
                Some(number) => found.push(number),
                None if ["and", "to"].contains(word) => continue,
                None => break,
            }
            if !word.ends_with(|letter: char| letter == ',' || letter.is_ascii_digit()) {
                break;
            }
        }
    }
    found
}

#[test]
fn cited_sections_of_the_numerics_exist() {
    let page = fs::read_to_string(root().join("docs").join(PAGE)).unwrap();
    let headings = page.lines().filter(|line| line.starts_with('#'));
    let sections: BTreeSet<&str> =
        headings.filter_map(|heading| number(heading.split_whitespace().nth(1)?)).collect();
    let mut count = 0;
    for (path, text) in [".rs", ".md", ".py", ".toml"].into_iter().flat_map(files_named) {
        for section in cited(&text) {
            assert!(sections.contains(section), "{path} cites section {section} of {PAGE}");
            count += 1;
        }
    }
    assert!(count > 50, "only {count} citations found");
}

#[test]
fn sections_are_found_across_lines_and_in_lists() {
    let text = "(docs/numerics.md, sections 4.1,\n/// 4.2 and 9.10 to 9.15). 7 more; [a](docs/numerics.md#x), section 8, \
        not in numerics.md, section one";
    assert_eq!(cited(text), ["4.1", "4.2", "9.10", "9.15", "8"]);
}
