//! Token bins of other programs: their types, headers and vocabularies, and paths to them.

use std::fs;

use altgrad_end_to_end::{Bench, Outcome, TINY};
use serde_json::Value;

/// Ids of the 27 characters that `nanogpt.pkl` has.
fn ids() -> Vec<u16> {
    (0..600u32).map(|at| (at * at % 27) as u16).collect()
}

/// `pickle.dump({'vocab_size': 27, 'itos': ..., 'stoi': ...}, f)` of CPython 3.11 for the characters `\n` and `a` to
/// `z`, protocol 4.
fn pickled() -> Vec<u8> {
    let characters = || std::iter::once(b'\n').chain(b'a'..=b'z').enumerate();
    let mut bytes =
        b"\x80\x04\x95\x00\x00\x00\x00\x00\x00\x00\x00}\x94(\x8c\nvocab_size\x94K\x1b\x8c\x04itos\x94}\x94("
            .to_vec();
    bytes.extend(characters().flat_map(|(id, letter)| [b'K', id as u8, 0x8c, 1, letter, 0x94]));
    bytes.extend(b"u\x8c\x04stoi\x94}\x94(");
    bytes.extend(characters().flat_map(|(id, _)| [b'h', 4 + id as u8, b'K', id as u8]));
    bytes.extend(b"uu.");
    bytes
}

/// A bench with a folder of bins, both splits with these bytes, and descriptions.
fn bench(bin: &[u8], descriptions: &[(&str, &[u8])]) -> Bench {
    let bench = Bench::new();
    let text = TINY.replace("text:corpus.txt", "bins:bins").replace("tokenizer = \"char\"\n", "");
    bench.write("tiny.toml", &text.replace("weight = \"E5M2\"\n", ""));
    fs::create_dir(bench.path("bins")).unwrap();
    for (name, bytes) in [("train.bin", bin), ("val.bin", bin)].iter().chain(descriptions) {
        fs::write(bench.path(&format!("bins/{name}")), bytes).unwrap();
    }
    bench
}

fn run(bench: &Bench) -> Outcome {
    bench.host(&["run", "tiny.toml", "--quiet"])
}

/// The loss of a run that must succeed.
#[track_caller]
fn loss(bench: &Bench) -> f64 {
    let outcome = run(bench);
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    let status: Value = serde_json::from_str(&bench.read("runs/tiny/run.json")).unwrap();
    status["final_val_loss"].as_f64().unwrap()
}

fn bytes<const N: usize>(encode: impl Fn(u16) -> [u8; N]) -> Vec<u8> {
    ids().into_iter().flat_map(encode).collect()
}

#[test]
fn ids_of_every_type_are_the_same_ids_or_refused() {
    const VOCABULARY: (&str, &[u8]) = ("meta.json", b"{\"vocab_size\": 27}");
    let expected = loss(&bench(&bytes(u16::to_le_bytes), &[VOCABULARY]));
    let wide = bytes(|id| u32::from(id).to_le_bytes());
    let mut llmc: Vec<u8> = [20_240_520u32, 1, 600].iter().flat_map(|word| word.to_le_bytes()).collect();
    llmc.resize(1024, 0);
    llmc.extend(bytes(u16::to_le_bytes));
    let mut npy =
        b"\x93NUMPY\x01\x00v\x00{'descr': '<i8', 'fortran_order': False, 'shape': (600,), }".to_vec();
    npy.resize(127, b' ');
    npy.push(b'\n');
    npy.extend(bytes(|id| u64::from(id).to_le_bytes()));
    let typed: (&str, &[u8]) = ("meta.json", b"{\"vocab_size\": 27, \"dtype\": \"uint32\"}");
    for (what, bin, meta) in
        [("llm.c", &llmc, VOCABULARY), ("npy", &npy, VOCABULARY), ("dtype", &wide, typed)]
    {
        assert_eq!(loss(&bench(bin, &[meta])).to_bits(), expected.to_bits(), "{what}");
    }
    let refused = run(&bench(&wide, &[VOCABULARY]));
    assert_eq!(refused.code, 2, "{}", refused.stderr);
    assert!(refused.stderr.contains("the token bin has 32-bit ids"), "{}", refused.stderr);
    assert!(
        refused
            .stderr
            .contains("hint: write {\"vocab_size\": N, \"dtype\": \"uint32\"} into the folder's meta.json"),
        "{}",
        refused.stderr
    );
}

#[test]
fn nanogpts_folder_of_characters_trains_and_speaks() {
    let bench = bench(&bytes(u16::to_le_bytes), &[("meta.pkl", &pickled())]);
    // ln 27 is 3.30; 256 ids would begin at 5.55.
    assert!(loss(&bench) < 3.5);
    let said = bench.host(&["sample", "runs/tiny", "--prompt", "abc", "--tokens", "9"]);
    assert_eq!(said.code, 0, "{}", said.stderr);
    assert!(said.stdout.starts_with("abc") && said.stdout.chars().count() == 13, "{}", said.stdout);
    fs::write(bench.path("bins/meta.pkl"), b"cos\nsystem\n(S'true'\ntR.").unwrap();
    let refused = bench.host(&["check", "tiny.toml"]);
    assert_eq!(refused.code, 2);
    assert!(refused.stderr.contains("cannot be read without executing Python"), "{}", refused.stderr);
    assert!(refused.stderr.contains("hint: write a meta.json"), "{}", refused.stderr);
}

/// The hint of the refusal, followed.
#[test]
fn ids_without_a_tokenizer_train_and_have_no_text_until_it_is_named() {
    let bench = bench(&bytes(u16::to_le_bytes), &[("meta.json", b"{\"vocab_size\": 27}")]);
    let _ = loss(&bench);
    assert_eq!(bench.host(&["evaluate", "runs/tiny"]).code, 0);
    let sample = || bench.host(&["sample", "runs/tiny", "--prompt", "abc", "--tokens", "9"]);
    let refused = sample();
    assert_eq!(refused.code, 2, "{}", refused.stderr);
    assert!(
        refused.stderr.starts_with("error: the text of these token ids is unknown"),
        "{}",
        refused.stderr
    );
    assert!(
        refused.stderr.contains("\"tokenizer\": \"char\" and \"characters\": \"...\""),
        "{}",
        refused.stderr
    );
    let meta =
        "{\"vocab_size\": 27, \"tokenizer\": \"char\", \"characters\": \"\\nabcdefghijklmnopqrstuvwxyz\"}";
    bench.write("bins/meta.json", meta);
    assert_eq!(sample().code, 0, "{}", sample().stderr);
}

#[test]
fn a_run_is_evaluated_from_any_folder_and_after_its_data_moved() {
    let bench = bench(&bytes(u16::to_le_bytes), &[("meta.json", b"{\"vocab_size\": 27}")]);
    let expected = loss(&bench);
    fs::create_dir_all(bench.path("elsewhere/deep")).unwrap();
    let evaluate = |more: &[&str]| {
        let mut command = bench.command(&[&["evaluate", "../../runs/tiny", "--json"], more].concat());
        Outcome::from(command.current_dir(bench.path("elsewhere/deep")).output().unwrap())
    };
    let found = |outcome: &Outcome| {
        assert_eq!(outcome.code, 0, "{}", outcome.stderr);
        serde_json::from_str::<Value>(&outcome.stdout).unwrap()["loss"].as_f64().unwrap()
    };
    assert_eq!(found(&evaluate(&[])).to_bits(), expected.to_bits());
    fs::rename(bench.path("bins"), bench.path("elsewhere/moved")).unwrap();
    let lost = evaluate(&[]);
    assert_eq!(lost.code, 2);
    assert!(lost.stderr.contains("`--dataset` names the same data at another place"), "{}", lost.stderr);
    assert_eq!(found(&evaluate(&["--dataset", "bins:../moved"])).to_bits(), expected.to_bits());
}

/// A run file in another folder than the working directory.
#[test]
fn paths_of_a_run_file_start_at_its_folder_and_earlier_meanings_are_named() {
    let bench = Bench::new();
    bench.write("configs/tiny.toml", TINY);
    let check = || bench.host(&["check", "configs/tiny.toml"]);
    let old = check();
    assert_eq!(old.code, 0, "{}", old.stderr);
    let said =
        "`data.dataset` is corpus.txt as in earlier versions, because configs/corpus.txt does not exist";
    assert_eq!(old.stderr.matches(said).count(), 1, "{}", old.stderr);
    bench.write("configs/corpus.txt", &"another text of other letters\n".repeat(30));
    let both = check();
    let said = "`data.dataset` is configs/corpus.txt; earlier versions took corpus.txt, which exists too";
    assert!(both.code == 0 && both.stderr.contains(said), "{}", both.stderr);
    fs::remove_file(bench.path("corpus.txt")).unwrap();
    let new = check();
    assert!(new.code == 0 && !new.stderr.contains("earlier versions"), "{}", new.stderr);
    let run = bench.host(&["run", "configs/tiny.toml", "--quiet"]);
    assert_eq!(run.code, 0, "{}", run.stderr);
    let resolved = bench.read("runs/tiny/config.toml");
    let whole = format!("dataset = \"text:{}\"", bench.path("configs/corpus.txt").display());
    assert!(resolved.contains(&whole) && !resolved.contains("\nout = "), "{resolved}");
}
