//! Packed files that unpack to far more than they should, and text that only packs well.

use std::io::{Cursor, Read};

use zip::write::SimpleFileOptions;

use super::*;

/// Bytes that would be unpacked where nothing stopped it.
const BOMB: usize = 200 << 20;

/// Lines that all are one record, packed to the utmost.
fn dense(bytes: usize) -> Vec<u8> {
    let line = format!("{GOOD}\n");
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    let lines = line.repeat((1 << 20) / line.len());
    for _ in 0..bytes.div_ceil(lines.len()) {
        encoder.write_all(lines.as_bytes()).unwrap();
    }
    encoder.finish().unwrap()
}

/// The densest packing: a fast compressor does not reach such ratios.
fn best(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

fn best_tar_gz(entries: &[Vec<u8>]) -> Vec<u8> {
    best(&[entries.concat(), vec![0; 1024]].concat())
}

fn unpacked(packed: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    flate2::read::GzDecoder::new(packed).read_to_end(&mut bytes).unwrap();
    bytes
}

fn zip_of(entries: &[(&str, &[u8])]) -> Vec<u8> {
    let mut writer = zip::ZipWriter::new(Cursor::new(Vec::new()));
    for (name, bytes) in entries {
        writer.start_file(*name, SimpleFileOptions::default()).unwrap();
        writer.write_all(bytes).unwrap();
    }
    writer.finish().unwrap().into_inner()
}

/// The refusal names the member and the limit. It happens before everything is unpacked, at the first bytes beyond the
/// free part, as its ratio shows.
fn refused(file: &str, bytes: &[u8], member: &str) {
    let bench = Bench::new();
    let request = bench.request(Dataset::Eurlex, &bench.write(file, bytes));
    let error = run(&request).unwrap_err();
    assert_eq!(error.fault.exit_code(), 2, "{error}");
    let said = format!("`{member}` unpacks to 64 MiB and more from ");
    assert!(error.message.starts_with(&said), "{file}: {error}");
    assert!(error.message.ends_with(":1; more than 100:1 is refused beyond 64 MiB"), "{file}: {error}");
    assert!(error.hint.as_deref().is_some_and(|hint| hint.contains("unpack it")), "{error}");
    assert!(bench.left().is_empty(), "{:?}", bench.left());
}

#[test]
fn what_unpacks_to_far_too_much_is_refused_by_name() {
    let bomb = dense(BOMB);
    assert!(bomb.len() < BOMB / 200, "{}", bomb.len());
    refused("eurlex.jsonl.gz", &bomb, "eurlex.jsonl.gz");
    // A packed member, in a tar archive and in a zip archive.
    let lines = unpacked(&bomb);
    let good = entry(tar::EntryType::Regular, "a.jsonl", GOOD.as_bytes());
    let tar = [good, entry(tar::EntryType::Regular, "b/bomb.jsonl", &lines)];
    refused("a.tar.gz", &best_tar_gz(&tar), "b/bomb.jsonl");
    refused("a.zip", &zip_of(&[("a.jsonl", GOOD.as_bytes()), ("bomb.jsonl", &lines)]), "bomb.jsonl");
    // Packed twice: neither layer alone is dense.
    let twice = entry(tar::EntryType::Regular, "bomb.jsonl.gz", &bomb);
    refused("a.tar.gz", &best_tar_gz(&[twice]), "bomb.jsonl.gz");
    // A bomb that is not read is unpacked too, and so is one after the archive's end.
    let unread = entry(tar::EntryType::Regular, "zeros.bin", &vec![0; BOMB]);
    refused("a.tar.gz", &best_tar_gz(&[unread]), "zeros.bin");
    let behind = best(&[entry(tar::EntryType::Regular, "a.jsonl", GOOD.as_bytes()), vec![0; BOMB]].concat());
    refused("a.tar.gz", &behind, "a.jsonl");
}

/// Each member is below the free part; together they exceed it, and the last one is named.
#[test]
fn many_small_bombs_are_one() {
    let lines = unpacked(&dense(30 << 20));
    let names = ["a.jsonl", "b.jsonl", "c.jsonl", "d.jsonl"];
    let members: Vec<(&str, &[u8])> = names.iter().map(|name| (*name, lines.as_slice())).collect();
    refused("a.zip", &zip_of(&members), "c.jsonl");
}

/// Text that packs well is read if it is small, or large and no denser than logs are.
#[test]
fn text_that_packs_well_is_read() {
    let bench = Bench::new();
    let documents = |prepared: PreparedData| prepared.meta.splits["train"].documents;
    // Some 340:1, but no more than anything may unpack to.
    let small = dense(8 << 20);
    let lines = unpacked(&small).len() / (GOOD.len() + 1);
    let request = bench.request(Dataset::Eurlex, &bench.write("eurlex.jsonl.gz", &small));
    assert_eq!(documents(run(&request).unwrap()), lines as u64);
    // Beyond that: blocks that nothing packs, each repeated 60 times within the codec's window.
    let (mut state, mut text) = (1u64, String::new());
    while text.len() < 80 << 20 {
        let letters: String = (0..400)
            .map(|_| {
                state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
                char::from(b'a' + (state >> 59) as u8 % 26)
            })
            .collect();
        text.push_str(&format!("{{\"text\": \"{letters}\", \"data_type\": \"train\"}}\n").repeat(60));
    }
    let packed = gz(text.as_bytes());
    let ratio = text.len() / packed.len();
    assert!((30..100).contains(&ratio), "{ratio}");
    let bench = Bench::new();
    let request = bench.request(Dataset::Eurlex, &bench.write("eurlex.jsonl.gz", packed));
    assert_eq!(documents(run(&request).unwrap()), text.lines().count() as u64);
}
