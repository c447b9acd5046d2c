//! GPT-2 tokenizing compared with Python's tiktoken: the same documents and threads, in turn, in one run.
//!
//! `cargo bench -p altgrad-host --bench tokenizer`. `ALTGRAD_BENCH_TEXT` names a text file (generated acts otherwise);
//! `ALTGRAD_PYTHON` a Python that has tiktoken; `ALTGRAD_GPT2_RANKS` GPT-2's ranks for it, which it downloads
//! otherwise.

// A benchmark fails loudly.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::{
    io::{BufRead, BufReader, Write},
    process::{Child, ChildStdout, Command, Stdio},
    time::Instant,
};

use altgrad_data::gpt2;
use rayon::prelude::*;
use sha2::{Digest, Sha256};

/// Rounds, each all cases in turn.
const ROUNDS: usize = 5;
/// Bytes of generated text.
const GENERATED: usize = 8 << 20;
/// Bytes of a document, to the next line end.
const DOCUMENT: usize = 16 << 10;

fn main() {
    let text = match std::env::var("ALTGRAD_BENCH_TEXT") {
        Ok(path) => std::fs::read_to_string(&path).expect("ALTGRAD_BENCH_TEXT names a text file"),
        Err(_) => {
            altgrad_synthetic_corpus::corpus(1, GENERATED).into_iter().map(|act| act.text + "\n").collect()
        }
    };
    let documents = cut(&text);
    let all = std::thread::available_parallelism().map_or(1, usize::from);
    let mut threads = vec![1, all];
    threads.dedup();
    // Reads the ranks, which is not timed; Python's are read before its first round, too.
    gpt2::Gpt2Encoder::new().expect("the ranks");
    let mut python = Python::start(&documents);
    let mut times = vec![[f64::INFINITY; 2]; threads.len()];
    for _ in 0..ROUNDS {
        for (threads, best) in threads.iter().zip(&mut times) {
            let (seconds, hash) = ours(&documents, *threads);
            best[0] = best[0].min(seconds);
            if let Some(python) = &mut python {
                let (seconds, theirs) = python.round(*threads);
                best[1] = best[1].min(seconds);
                assert_eq!(hash, theirs, "the ids differ");
            }
        }
    }
    let megabytes = text.len() as f64 / 1e6;
    println!(
        "GPT-2 tokenizing, {megabytes:.1} MB in {} documents, best of {ROUNDS} rounds in turn",
        documents.len()
    );
    for (threads, [ours, theirs]) in threads.iter().zip(times) {
        let ours = megabytes / ours;
        match &python {
            Some(python) => {
                let theirs = megabytes / theirs;
                let (version, ratio) = (&python.version, ours / theirs);
                println!(
                    "{threads} thread(s): {ours:.1} MB/s, tiktoken {version} {theirs:.1} MB/s: {ratio:.2} x, same ids"
                );
            }
            None => println!("{threads} thread(s): {ours:.1} MB/s"),
        }
    }
}

/// Documents of about the same size.
fn cut(text: &str) -> Vec<&str> {
    let mut documents = Vec::new();
    let mut rest = text;
    while rest.len() > DOCUMENT {
        let end = rest.as_bytes()[DOCUMENT..].iter().position(|byte| *byte == b'\n');
        let Some(end) = end else { break };
        let (document, after) = rest.split_at(DOCUMENT + end + 1);
        documents.push(document);
        rest = after;
    }
    documents.push(rest);
    documents
}

/// Seconds, and the hash of all ids.
fn ours(documents: &[&str], threads: usize) -> (f64, String) {
    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().expect("threads");
    let start = Instant::now();
    let ids: Vec<Vec<u16>> = pool.install(|| {
        // Each thread has its share and a new encoder: filling its cache is part of the work.
        let share = documents.len().div_ceil(threads);
        let encode = |documents: &[&str]| {
            let mut encoder = gpt2::Gpt2Encoder::new().expect("the ranks");
            let encoded = documents.iter().map(|document| {
                let mut ids = Vec::with_capacity(document.len() / 3);
                encoder.encode(document, &mut ids);
                ids
            });
            encoded.collect::<Vec<_>>()
        };
        documents.par_chunks(share).flat_map_iter(encode).collect()
    });
    let seconds = start.elapsed().as_secs_f64();
    let mut hash = Sha256::new();
    for id in ids.iter().flatten() {
        hash.update(id.to_le_bytes());
    }
    (seconds, hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect())
}

/// A Python that does a round when told.
struct Python {
    process: Child,
    answers: BufReader<ChildStdout>,
    version: String,
}

impl Python {
    /// `None`, with the reason printed, if there is none.
    fn start(documents: &[&str]) -> Option<Self> {
        let Ok(python) = std::env::var("ALTGRAD_PYTHON") else {
            println!("SKIPPED Python's tiktoken: ALTGRAD_PYTHON names no Python that has it");
            return None;
        };
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/benches/tiktoken_rounds.py");
        let mut command = Command::new(python);
        let mut process = command
            .arg(script)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("ALTGRAD_PYTHON starts");
        let documents = serde_json::to_string(documents).expect("texts are JSON");
        // A Python without tiktoken ends without listening.
        process.stdin.as_mut().map(|input| writeln!(input, "{documents}"));
        let mut answers = BufReader::new(process.stdout.take().expect("its output"));
        let mut version = String::new();
        answers.read_line(&mut version).expect("it answers");
        let python = Self { process, answers, version: version.trim().into() };
        if python.version.is_empty() {
            println!("SKIPPED Python's tiktoken: it cannot be used there, see above");
            return None;
        }
        Some(python)
    }

    fn round(&mut self, threads: usize) -> (f64, String) {
        writeln!(self.process.stdin.as_mut().expect("its input"), "{threads}").expect("it listens");
        let mut line = String::new();
        self.answers.read_line(&mut line).expect("it answers");
        let (seconds, hash) = line.trim().split_once(' ').expect("seconds and a hash");
        (seconds.parse().expect("a number"), hash.into())
    }
}

impl Drop for Python {
    fn drop(&mut self) {
        drop(self.process.stdin.take());
        self.process.wait().ok();
    }
}
