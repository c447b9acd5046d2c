//! Texts without records: where they are cut, in parts and in two.

use std::fs;

use altgrad_config::{DataSection, DatasetChoice};

use super::{super::*, bench::Bench, run};
use crate::{Corpus, Tokens};

#[test]
fn a_text_alone_is_cut_at_nine_tenths() {
    let bench = Bench::new();
    let input = bench.write("input.txt", "0123456789".repeat(10));
    run(&bench.request(Dataset::Text, &input)).unwrap();
    assert_eq!((bench.text("train").len(), bench.text("val").as_str()), (90, "0123456789"));
    // Nine tenths of 20 bytes lie in the middle of a character.
    let input = bench.write("other.txt", "01234567890123456éz");
    run(&Request { force: true, ..bench.request(Dataset::Text, &input) }).unwrap();
    assert_eq!((bench.text("train").as_str(), bench.text("val").as_str()), ("01234567890123456é", "z"));
}

#[test]
fn a_text_alone_without_text_is_one_fault() {
    let bench = Bench::new();
    for blank in ["", " \n \n"] {
        let input = bench.write("blank.txt", blank);
        let error = run(&bench.request(Dataset::Text, &input)).unwrap_err();
        assert_eq!(error.message, "no document can be used: blank.txt: no text");
        assert!(error.hint.is_some_and(|hint| hint.starts_with("`text` takes files with text")));
    }
}

/// In UTF-16 the first nine tenths begin with a mark that is no UTF-8, and the rest of an English text is valid.
#[test]
fn a_text_alone_is_used_whole_or_not_at_all() {
    let bench = Bench::new();
    let utf16 = format!("\u{feff}{}", "a line of text\n".repeat(40));
    let input = bench.write("input.txt", utf16.encode_utf16().flat_map(u16::to_le_bytes).collect::<Vec<_>>());
    let error = run(&bench.request(Dataset::Text, &input)).unwrap_err();
    assert_eq!(error.message, "no document can be used: input.txt: not UTF-8 (byte 0)");
    assert!(error.hint.is_some_and(|hint| hint.contains("in UTF-8")));
    assert!(!bench.request(Dataset::Text, &input).out.exists());
}

/// All ids of a split.
fn ids(tokens: &Tokens) -> Vec<u16> {
    tokens.read(0..tokens.len()).unwrap().into_owned()
}

/// Text beyond the size of a part, and characters that take two passes.
#[test]
fn parts_of_a_text_are_the_text() {
    let text: String = (0..200_000)
        .map(|n| format!("line {n} of it's text,\n{}", if n % 7 == 0 { "\n  é \n" } else { "" }))
        .collect();
    assert!(text.len() > 4 << 20);
    let bench = Bench::new();
    bench.write("texts/train/a.txt", &text);
    bench.write("texts/val/b.txt", "short");
    let input = bench.0.path().join("in/texts");
    for choice in [TokenizerChoice::Gpt2, TokenizerChoice::Char] {
        let request = Request { tokenizer: choice, force: true, ..bench.request(Dataset::Text, &input) };
        let meta = run(&request).unwrap().meta;
        let tokenizer = meta.tokenizer().unwrap();
        let ids: Vec<u16> = ids(&Tokens::open(&request.out.join("train.bin"), None).unwrap());
        let (body, end) = ids.split_at(ids.len() - 1);
        assert_eq!(end, meta.separator);
        assert_eq!(body, tokenizer.encode(&text).unwrap());
        assert_eq!(meta.splits["train"].text_bytes, text.len() as u64);
    }
}

#[test]
fn a_text_that_breaks_late_is_taken_out_whole() {
    let bench = Bench::new();
    let good = "good line\n".repeat(300_000);
    bench.write("texts/train/a.txt", "first");
    bench.write("texts/train/b.txt", [good.as_bytes(), b"\xff\n", good.as_bytes()].concat());
    bench.write("texts/train/c.txt", " \n".repeat(1_000_000));
    bench.write("texts/train/d.txt", "x".repeat(items::LONGEST + (2 << 20)));
    bench.write("texts/train/e.txt", "last");
    let input = bench.0.path().join("in/texts");
    let prepared = run(&bench.request(Dataset::Text, &input)).unwrap();
    assert_eq!(bench.text("train"), "first\nlast\n");
    let skipped = [("empty", 1), ("invalid UTF-8", 1), ("too long", 1)];
    assert_eq!(prepared.meta.skipped, skipped.map(|(kind, count)| (kind.to_string(), count)).into());
    assert_eq!(prepared.meta.splits["train"].documents, 2);
}

#[test]
fn bins_work_as_a_runs_data() {
    let bench = Bench::new();
    let input = bench.write("input.txt", "to be or not to be\n".repeat(50));
    let request = Request { tokenizer: TokenizerChoice::Char, ..bench.request(Dataset::Text, &input) };
    run(&request).unwrap();
    let section = DataSection { dataset: DatasetChoice::Bins(request.out.clone()), ..DataSection::default() };
    let corpus = Corpus::open(&section).unwrap();
    assert_eq!(corpus.tokenizer, Tokenizer::chars_of("to be or not to be\n"));
    fs::write(request.out.join("val.bin"), [0; 400]).unwrap();
    let error = Corpus::open(&section).unwrap_err();
    assert!(error.to_string().contains("the bin holds 200 tokens, meta.json says 95"), "{error}");
}

/// A run of `text:FILE` and bins of the same file hold out the same text, to the token.
#[test]
fn a_run_of_a_text_and_its_bins_have_the_same_tokens() {
    let verse = "To be, or not to be: that's the question.\n";
    let texts = [
        ("english", verse.repeat(20)),
        ("characters of several bytes", "01234567890123456éz — naïve\u{1f642}".repeat(30)),
        ("a character across the cut", format!("{}é{}", "a".repeat(179), "b".repeat(19))),
        ("a mark of the encoding", format!("\u{feff}{}", verse.repeat(7))),
        ("line ends of another system", verse.replace('\n', "\r\n").repeat(11)),
        ("no line end", "abc def ".repeat(40)),
        ("several parts", verse.repeat(60_000)),
    ];
    for (what, text) in texts {
        for tokenizer in [TokenizerChoice::Byte, TokenizerChoice::Char, TokenizerChoice::Gpt2] {
            let bench = Bench::new();
            let input = bench.write("input.txt", &text);
            let request = Request { tokenizer, ..bench.request(Dataset::Text, &input) };
            run(&request).unwrap();
            let open = |dataset| {
                let section = DataSection { dataset, tokenizer, block_size: 4, ..DataSection::default() };
                Corpus::open(&section).unwrap()
            };
            let (bins, text) = (open(DatasetChoice::Bins(request.out)), open(DatasetChoice::Text(input)));
            assert!(bins.tokenizer == text.tokenizer, "{what}, {tokenizer}");
            for (bins, text) in [(&bins.train, &text.train), (&bins.val, &text.val)] {
                assert!(ids(bins) == ids(text), "{what}, {tokenizer}");
            }
        }
    }
}
