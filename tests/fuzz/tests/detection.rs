//! The bench itself: readers with a fault each, which it must find, minimize and keep.

#![allow(clippy::unwrap_used)]

use std::{fs, panic, path::Path};

use altgrad_fuzz::{Input, Target};

/// A reader of one file.
fn target(name: &'static str, read: fn(&Path)) -> Target {
    Target { name, words: &[b"word"], bytes_a_byte: 10, bytes: 1 << 16, read }
}

fn contents(folder: &Path) -> Vec<u8> {
    fs::read(folder.join("file")).unwrap_or_default()
}

/// The bench's report on a reader's fault, and the input it kept.
fn found(target: &Target) -> (String, Input) {
    let corpus = tempfile::tempdir().unwrap();
    Input { files: vec![("file".into(), b"length 12, and text".to_vec())] }
        .write(&corpus.path().join("sound"));
    let complaint = panic::catch_unwind(|| target.fuzz_with(corpus.path())).unwrap_err();
    let complaint = complaint.downcast::<String>().unwrap();
    let kept: Vec<_> = fs::read_dir(corpus.path()).unwrap().map(|entry| entry.unwrap().path()).collect();
    let kept =
        kept.iter().find(|path| path.file_name().unwrap().to_str().unwrap().starts_with("found-")).unwrap();
    let input = Input::read(kept).unwrap();
    // A kept input is tried first, without any damage.
    let again = panic::catch_unwind(|| target.fuzz_with(corpus.path())).unwrap_err();
    assert!(again.downcast::<String>().unwrap().contains(kept.to_str().unwrap()));
    (*complaint, input)
}

#[test]
fn a_panic_is_found_and_its_input_made_small() {
    let broken = target("bench-panic", |folder| {
        // A character cut in half is no text.
        let bytes = contents(folder);
        assert!(!bytes.windows(4).any(|part| part == b"word"), "a word");
    });
    let (complaint, input) = found(&broken);
    assert!(complaint.starts_with("bench-panic: a word"), "{complaint}");
    assert!(input.len() < 40, "{input:?}");
}

#[test]
fn memory_for_a_length_that_the_file_only_claims_is_found() {
    let greedy = target("bench-memory", |folder| {
        let text = String::from_utf8_lossy(&contents(folder)).into_owned();
        let digits: String = text.chars().filter(char::is_ascii_digit).take(7).collect();
        let claimed = digits.parse::<usize>().unwrap_or(0);
        std::hint::black_box(vec![0u8; claimed]);
    });
    let (complaint, _) = found(&greedy);
    assert!(complaint.contains("bytes of memory for an input of"), "{complaint}");
}

#[test]
fn a_file_that_is_missing_is_among_the_damages() {
    let trusting = target("bench-missing", |folder| assert!(folder.join("file").exists(), "no file"));
    assert!(found(&trusting).1.files.is_empty());
}
