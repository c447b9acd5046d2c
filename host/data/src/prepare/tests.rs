//! Preparations of small inputs, valid and damaged.

use std::{fs, io::Write, path::Path};

use altgrad_end_to_end::skipped;
use flate2::{Compression, write::GzEncoder};

use super::*;

mod bench;
mod bombs;
mod texts;
use bench::{Bench, Silent};

fn run(request: &Request) -> Result<PreparedData, Diagnostic> {
    prepare(request, &Silent)
}

fn gz(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

/// An entry with any name.
fn entry(kind: tar::EntryType, name: &str, contents: &[u8]) -> Vec<u8> {
    let mut header = tar::Header::new_gnu();
    header.as_old_mut().name[..name.len()].copy_from_slice(name.as_bytes());
    header.set_entry_type(kind);
    header.set_size(contents.len() as u64);
    header.set_mode(0o644);
    header.set_cksum();
    let padding = vec![0; contents.len().next_multiple_of(512) - contents.len()];
    [header.as_bytes(), contents, &padding].concat()
}

fn tar_gz(entries: &[Vec<u8>]) -> Vec<u8> {
    gz(&[entries.concat(), vec![0; 1024]].concat())
}

const GOOD: &str = r#"{"text": "good", "data_type": "train"}"#;

/// Each is one unusable record beside a good one: counted by default, refused with `--strict`.
#[test]
fn what_cannot_be_used_is_counted_or_refused() {
    let long = format!("{{\"text\": \"{}\"}}", "x".repeat(items::LONGEST));
    let deep = format!("{{\"text\": {}", "[".repeat(10_000));
    let cases: [(&str, &[u8]); 11] = [
        ("malformed", b"{\"text\": \"cut"),
        ("malformed", b"not json"),
        ("malformed", b"[1, 2]"),
        ("malformed", b"{\"text\": 7}"),
        ("malformed", deep.as_bytes()),
        ("malformed", b"{\"text\": {\"en\": \"a table\"}}"),
        ("missing field", b"{\"data_type\": \"train\"}"),
        ("missing field", b"{\"text\": null}"),
        ("empty", b"{\"text\": \" \\n\\u00a0\"}"),
        ("invalid UTF-8", b"{\"text\": \"\xc3(\"}"),
        ("too long", long.as_bytes()),
    ];
    for (kind, line) in cases {
        let bench = Bench::new();
        let input =
            bench.write("eurlex.jsonl", [GOOD.as_bytes(), b"\n", line, b"\n", GOOD.as_bytes()].concat());
        let mut request = bench.request(Dataset::Eurlex, &input);
        request.strict = true;
        let error = run(&request).unwrap_err();
        assert_eq!(error.place.as_deref(), Some("eurlex.jsonl:2"), "{error}");
        assert_eq!(error.fault.exit_code(), 2);
        assert!(bench.left().is_empty());
        request.strict = false;
        let prepared = run(&request).unwrap();
        assert_eq!(prepared.meta.skipped, BTreeMap::from([(kind.to_string(), 1)]));
        assert!(
            prepared.skipped[0].starts_with(&format!("1 {kind}, first at eurlex.jsonl:2: ")),
            "{:?}",
            prepared.skipped
        );
        assert_eq!(bench.text("train"), "good\ngood\n");
        // Skipped records are reported even if the bins exist.
        request.strict = true;
        assert!(run(&request).is_err());
        assert_eq!(bench.text("train"), "good\ngood\n");
    }
}

#[test]
fn acts_without_the_language_are_counted_or_refused() {
    let bench = Bench::new();
    let input = bench.write(
        "train.jsonl",
        "{\"text\": {\"en\": \"law\", \"de\": \"Gesetz\"}}\n{\"text\": {\"en\": null}}\n{\"text\": {\"de\": \"nur\"}}\n{\"text\": \"plain\"}\n",
    );
    let mut request = bench.request(Dataset::MultiEurlex, &input);
    let prepared = run(&request).unwrap();
    assert_eq!(
        prepared.meta.skipped,
        BTreeMap::from([("malformed".into(), 1), ("other language".into(), 2)])
    );
    assert_eq!(bench.text("train"), "law\n");
    request.strict = true;
    assert_eq!(run(&request).unwrap_err().place.as_deref(), Some("train.jsonl:2"));
    for language in [None, Some("xx"), Some("EN")] {
        request.language = language.map(String::from);
        assert_eq!(run(&request).unwrap_err().fault.exit_code(), 2);
    }
}

#[test]
fn line_ends_and_marks_of_encoding_are_no_text() {
    let bench = Bench::new();
    let lines = format!("\u{feff}{GOOD}\r\n\r\n  \n{}", GOOD.replace("good", "line\\r\\nend"));
    let input = bench.write("eurlex.jsonl", lines);
    let mut request = bench.request(Dataset::Eurlex, &input);
    request.strict = true;
    run(&request).unwrap();
    // Line ends inside a text are the text's.
    assert_eq!(bench.text("train"), "good\nline\r\nend\n");
}

#[test]
fn an_input_without_documents_makes_no_bins() {
    for (name, bytes) in
        [("a.jsonl", &b""[..]), ("a.jsonl", b"{}\n{}"), ("a.jsonl.gz", &gz(b"")), ("a.tar.gz", &tar_gz(&[]))]
    {
        let bench = Bench::new();
        let input = bench.write(name, bytes);
        let error = run(&bench.request(Dataset::Eurlex, &input)).unwrap_err();
        assert!(error.message.starts_with("no document can be used"), "{error}");
        assert!(!bench.0.path().join("out").exists());
    }
    let bench = Bench::new();
    for missing in ["none.jsonl", "."] {
        let input = bench.0.path().join(missing);
        assert_eq!(run(&bench.request(Dataset::Eurlex, &input)).unwrap_err().fault.exit_code(), 2);
    }
}

#[test]
fn records_of_another_data_set_are_named_and_no_folder_is_left() {
    let by_language = |language: &str| format!(r#"{{"celex_id": "3", "text": {{"{language}": "law"}}}}"#);
    let parts = r#"{"header": "H", "recitals": "R", "main_body": ["B"]}"#.to_string();
    let cases = [
        (Dataset::Eurlex, by_language("en"), "`data prepare multi_eurlex --lang en`"),
        (Dataset::Text, by_language("en"), "`data prepare multi_eurlex --lang en`"),
        (Dataset::MultiEurlex, by_language("de"), "`data prepare multi_eurlex --lang de`"),
        (Dataset::Eurlex, parts, "`data prepare eurlex57k`"),
        (Dataset::Eurlex57k, GOOD.to_string(), "`data prepare eurlex`"),
        (Dataset::Eurlex, "{}".to_string(), "is it the data set `eurlex`?"),
        (
            Dataset::Text,
            "{}".to_string(),
            "`text` takes files with text in UTF-8, or JSON lines with a field `text`",
        ),
    ];
    for (dataset, record, expected) in cases {
        let bench = Bench::new();
        bench.write("folder/train.jsonl", &record);
        let input = bench.0.path().join("in/folder");
        let mut request = bench.request(dataset, &input);
        request.out = bench.0.path().join("made/for/bins");
        let error = run(&request).unwrap_err();
        assert!(error.to_string().contains(expected), "{error}");
        assert!(!bench.0.path().join("made").exists(), "{dataset:?}");
        fs::create_dir(bench.0.path().join("made")).unwrap();
        assert!(run(&request).is_err());
        let left = fs::read_dir(bench.0.path().join("made")).unwrap().count();
        assert_eq!(left, 0, "a folder that was there stays as it was");
    }
}

/// The missing part of a file that ends in the middle is unknown: never a count, always an error.
#[test]
fn damaged_files_are_refused() {
    let lines = format!("{GOOD}\n").repeat(3000);
    let train = entry(tar::EntryType::Regular, "train.jsonl", lines.as_bytes());
    let (packed, tar) = (gz(lines.as_bytes()), tar_gz(std::slice::from_ref(&train)));
    let mut wrong = packed.clone();
    let crc = wrong.len() - 6;
    wrong[crc] ^= 1;
    let cut = |bytes: &[u8]| bytes[..bytes.len() - 9].to_vec();
    let cases = [
        ("a.jsonl.gz", cut(&packed)),
        ("a.jsonl.gz", packed[..packed.len() / 2].to_vec()),
        ("a.jsonl.gz", wrong),
        ("a.jsonl.gz", b"no gzip at all".to_vec()),
        ("a.tar.gz", cut(&tar)),
        ("a.tar.gz", gz(&train[..train.len() / 2])),
        ("a.tar.gz", gz(&[7; 2000])),
        ("a.zip", b"no zip at all".to_vec()),
        ("a.zip", cut(&zip_of(&[("train.jsonl", lines.as_bytes())]))),
        // A long name of 3 MiB, which readers of archives take into memory.
        (
            "a.tar.gz",
            tar_gz(&[entry(tar::EntryType::GNULongName, "././@LongLink", &vec![b'a'; 3 << 20]), train]),
        ),
    ];
    for (number, (name, bytes)) in cases.into_iter().enumerate() {
        let bench = Bench::new();
        let input = bench.write(name, bytes);
        let error = run(&bench.request(Dataset::Eurlex, &input)).unwrap_err();
        assert_eq!(error.place, Some(input.display().to_string()), "case {number}: {error}");
        assert!(bench.left().is_empty(), "case {number}");
    }
}

fn zip_of(entries: &[(&str, &[u8])]) -> Vec<u8> {
    let mut writer = zip::ZipWriter::new(std::io::Cursor::new(Vec::new()));
    for (name, bytes) in entries {
        writer.start_file(*name, zip::write::SimpleFileOptions::default()).unwrap();
        writer.write_all(bytes).unwrap();
    }
    writer.finish().unwrap().into_inner()
}

#[test]
fn names_in_archives_lead_nowhere() {
    let line = GOOD.as_bytes();
    let file = |name: &str| entry(tar::EntryType::Regular, name, line);
    let elsewhere = tempfile::tempdir().unwrap();
    let absolute = elsewhere.path().join("absolute.jsonl");
    let absolute = absolute.to_str().unwrap();
    let archives = [
        (
            "a.tar.gz",
            tar_gz(&[
                file("../train.jsonl"),
                file(absolute),
                file("x/../../dev.jsonl"),
                entry(tar::EntryType::Symlink, "link.jsonl", b""),
                entry(tar::EntryType::Link, "hard.jsonl", b""),
                entry(tar::EntryType::Fifo, "pipe.jsonl", b""),
                entry(tar::EntryType::Directory, "folder.jsonl/", b""),
                file("README"),
                file("eurlex.jsonl"),
            ]),
            3,
        ),
        (
            "a.zip",
            zip_of(&[
                ("../train.jsonl", line),
                (absolute, line),
                ("x\\..\\..\\dev.jsonl", line),
                ("__MACOSX/._eurlex.jsonl", b"junk"),
                ("eurovoc_concepts.json", b"{}"),
                ("eurlex.jsonl", line),
            ]),
            0,
        ),
    ];
    for (name, bytes, links) in archives {
        let bench = Bench::new();
        let input = bench.write(name, bytes);
        let mut request = bench.request(Dataset::Eurlex, &input);
        request.strict = true;
        assert!(run(&request).is_err());
        request.strict = false;
        let prepared = run(&request).unwrap();
        assert_eq!(prepared.meta.skipped.get("unsafe name"), Some(&3));
        assert_eq!(prepared.meta.skipped.get("no plain file").copied().unwrap_or(0), links);
        assert_eq!(bench.text("train"), "good\n");
        assert_eq!(bench.left(), ["meta.json", "train.bin", "val.bin"]);
        let beside: Vec<_> =
            fs::read_dir(bench.0.path()).unwrap().flatten().map(|entry| entry.file_name()).collect();
        assert_eq!(beside.len(), 2, "{beside:?}");
        assert!(!Path::new(absolute).exists());
    }
}

/// 60 MiB of zeros in 200 kB, as much as anything may unpack to: read past, line by line.
#[test]
fn a_long_line_that_packs_well_is_read_past() {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(GOOD.as_bytes()).unwrap();
    encoder.write_all(b"\n").unwrap();
    for _ in 0..60 {
        encoder.write_all(&vec![0; 1 << 20]).unwrap();
    }
    let bench = Bench::new();
    let input = bench.write("eurlex.jsonl.gz", encoder.finish().unwrap());
    let prepared = run(&bench.request(Dataset::Eurlex, &input)).unwrap();
    assert_eq!(prepared.meta.skipped, BTreeMap::from([("too long".into(), 1)]));
}

#[test]
fn every_container_gives_the_same_bins() {
    let act = |n: u32, split: &str| {
        format!(
            "{{\"celex_id\": \"{n}\", \"header\": \"h{n}\", \"recitals\": \"{split}\", \"main_body\": [\"b\"]}}"
        )
    };
    let lines =
        |split: &str, numbers: [u32; 2]| format!("{}\n{}\n", act(numbers[0], split), act(numbers[1], split));
    let (train, dev, test) = (lines("train", [1, 2]), lines("dev", [3, 4]), lines("test", [5, 6]));
    let files = [("train.jsonl", &train), ("dev.jsonl", &dev), ("test.jsonl", &test)];
    let bench = Bench::new();
    let entries = files.map(|(name, text)| entry(tar::EntryType::Regular, name, text.as_bytes()));
    let zipped = files.map(|(name, text)| (name, text.as_bytes()));
    let mut inputs = vec![bench.write("a.tar.gz", tar_gz(&entries)), bench.write("a.zip", zip_of(&zipped))];
    for (name, text) in files {
        inputs.push(bench.write(&format!("lines/{name}"), text).parent().unwrap().into());
        bench.write(&format!("packed/{name}.gz"), gz(text.as_bytes()));
    }
    inputs.push(bench.0.path().join("in/packed"));
    for (number, split) in (1..).zip(["train", "train", "dev", "dev", "test", "test"]) {
        // As published first: a folder of files, indented.
        let pretty = act(number, split).replace(", ", ",\n  ");
        bench.write(&format!("files/{split}/{number}.json"), pretty);
    }
    inputs.push(bench.0.path().join("in/files"));
    for input in inputs {
        let mut request = bench.request(Dataset::Eurlex57k, &input);
        (request.strict, request.force) = (true, true);
        let prepared = run(&request).unwrap();
        let of = |split: &str| bench.text(split);
        assert_eq!(of("train"), "h1\ntrain\nb\nh2\ntrain\nb\n", "{}", input.display());
        assert_eq!(
            (of("val"), of("test")),
            ("h3\ndev\nb\nh4\ndev\nb\n".into(), "h5\ntest\nb\nh6\ntest\nb\n".into())
        );
        let facts = &prepared.meta.splits["train"];
        assert_eq!((facts.documents, facts.tokens, facts.text_bytes), (2, 22, 20));
        assert_eq!(facts.lengths, [0, 0, 0, 2]);
    }
}

#[test]
fn the_same_again_changes_nothing_and_anything_else_is_refused() {
    let bench = Bench::new();
    let input = bench.write("eurlex.jsonl", format!("{GOOD}\n"));
    let request = bench.request(Dataset::Eurlex, &input);
    let first = run(&request).unwrap();
    assert!(!first.unchanged);
    let time = || fs::metadata(request.out.join("train.bin")).unwrap().modified().unwrap();
    let made = time();
    let again = run(&request).unwrap();
    assert!(again.unchanged);
    assert_eq!((again.meta, time()), (first.meta, made));
    // Another option, another input.
    let other = Request { tokenizer: TokenizerChoice::Char, ..request.clone() };
    assert!(run(&other).unwrap_err().message.contains("the tokenizer was byte, is char now"));
    fs::write(&input, format!("{GOOD}\n{GOOD}\n")).unwrap();
    assert!(run(&request).unwrap_err().message.contains("the input was"));
    assert_eq!(time(), made);
    run(&Request { force: true, ..request.clone() }).unwrap();
    assert_eq!(bench.text("train"), "good\ngood\n");
    // Damaged bins are replaced.
    fs::write(request.out.join("train.bin"), b"damaged!").unwrap();
    assert!(!run(&request).unwrap().unchanged);
    assert_eq!(bench.text("train"), "good\ngood\n");
    // Bins of others are theirs.
    fs::write(request.out.join("meta.json"), "{\"vocab_size\": 256}").unwrap();
    assert!(run(&request).unwrap_err().message.contains("did not make"));
}

#[test]
fn what_a_killed_preparation_leaves_is_no_hindrance() {
    let bench = Bench::new();
    let input = bench.write("eurlex.jsonl", format!("{GOOD}\n"));
    let request = bench.request(Dataset::Eurlex, &input);
    fs::create_dir_all(&request.out).unwrap();
    fs::write(request.out.join("train.bin.part"), b"torn").unwrap();
    fs::write(request.out.join("test.bin.part"), b"torn").unwrap();
    // Killed after the description was written, before the bins got their names.
    fs::write(request.out.join("meta.json"), "{\"vocab_size\": 50257}").unwrap();
    run(&request).unwrap();
    assert_eq!(bench.text("train"), "good\n");
    assert_eq!(bench.left(), ["meta.json", "train.bin", "val.bin"]);
    // Two at a time do not mix.
    let _claim = Claim::of(&request.out).unwrap();
    assert!(run(&request).unwrap_err().message.contains("another preparation"));
}

#[test]
fn documents_are_told_by_hash_where_the_data_set_says_nothing() {
    let lines: String = (0..1000).map(|n| format!("{{\"text\": \"act {n}\"}}\n")).collect();
    let bench = Bench::new();
    let input = bench.write("all.jsonl", &lines);
    run(&bench.request(Dataset::Text, &input)).unwrap();
    let held_out = bench.text("val");
    let count = held_out.lines().count();
    assert!((70..130).contains(&count), "{count} of 1000");
    // A document's split does not depend on other documents.
    let half = bench.write("half.jsonl", lines.lines().step_by(2).collect::<Vec<_>>().join("\n"));
    run(&Request { force: true, ..bench.request(Dataset::Text, &half) }).unwrap();
    assert!(bench.text("val").lines().all(|line| held_out.lines().any(|held| held == line)));
    // The data set's own split does not count if it is not to.
    let own = bench.write("train.jsonl", lines);
    run(&Request { force: true, ..bench.request(Dataset::Text, &own) }).unwrap();
    assert_eq!(bench.text("val"), "");
    run(&Request { force: true, own_split: false, ..bench.request(Dataset::Text, &own) }).unwrap();
    assert_eq!(bench.text("val"), held_out);
}

/// The published sample, whose ids were computed elsewhere: `ALTGRAD_EURLEX57K` names its folder, `ALTGRAD_GPT2_GOLDEN`
/// that of `expected_bins.json`.
#[test]
fn bins_of_a_given_sample_are_as_expected() {
    let (Ok(input), Ok(golden)) = (std::env::var("ALTGRAD_EURLEX57K"), std::env::var("ALTGRAD_GPT2_GOLDEN"))
    else {
        let why = "ALTGRAD_EURLEX57K and ALTGRAD_GPT2_GOLDEN name no folders";
        return skipped("bins_of_a_given_sample_are_as_expected", why);
    };
    let expected = fs::read(Path::new(&golden).join("expected_bins.json")).unwrap();
    let expected: BTreeMap<String, serde_json::Value> = serde_json::from_slice(&expected).unwrap();
    let bench = Bench::new();
    let mut request = bench.request(Dataset::Eurlex57k, Path::new(&input));
    (request.tokenizer, request.strict) = (TokenizerChoice::Gpt2, true);
    let meta = run(&request).unwrap().meta;
    for (split, theirs) in [("train", "train"), ("val", "dev"), ("test", "test")] {
        let (key, expected) =
            expected.iter().find(|(key, _)| key.starts_with(&format!("eurlex57k/{theirs} "))).unwrap();
        let facts = &meta.splits[split];
        assert_eq!(expected["sha256_u16le"], facts.sha256.as_str(), "{key}");
        assert_eq!(
            [&expected["docs"], &expected["tokens"], &expected["text_bytes"]],
            [facts.documents, facts.tokens, facts.text_bytes]
        );
    }
}
