//! Damaged input: every reader of files must refuse it with a message, and never panic, hang or allocate memory without
//! bound.
//!
//! A [`Target`] is a function from a folder of files to nothing. Its inputs start as those of `corpus/NAME/`, each a
//! folder; they are damaged at random ([`mutate`]), written out and given to it. A case fails if it panics, takes
//! longer than [`TIME`], or at any moment holds more memory than its input's size times a constant. A failing input is
//! minimized and saved in the corpus, where it is tried again every time; an input that ended the whole process stays
//! in the scratch folder and is tried first the next time.
//!
//! `ALTGRAD_FUZZ_CASES` (100; 1000 in `cargo xtask test --all`) and `ALTGRAD_FUZZ_SEED` (1) make it longer, or another
//! one. A new target is a corpus folder and a test of a few lines in `tests/targets.rs`.

// A test bench: failing loudly is its job.
#![allow(clippy::expect_used, clippy::panic)]

pub mod input;
pub mod limits;
pub mod mutate;

use std::{
    panic,
    path::{Path, PathBuf},
    sync::{Mutex, PoisonError},
    time::Duration,
};

use proptest::test_runner::{Config, RngAlgorithm, TestCaseError, TestError, TestRng, TestRunner};

pub use self::input::Input;

/// The longest a case may take, far more than any needs on a busy machine.
pub const TIME: Duration = Duration::from_secs(30);
/// Cases by default: some seconds a target.
const CASES: u32 = 100;

/// Something that reads files.
pub struct Target {
    /// Name, of its corpus folder too.
    pub name: &'static str,
    /// Words to insert: keys, brackets, magic numbers.
    pub words: &'static [&'static [u8]],
    /// Memory allowed at once: this many bytes a byte of input ...
    pub bytes_a_byte: usize,
    /// ... and this many anyway.
    pub bytes: usize,
    /// Reads the files of a folder. A refusal counts as a correct result; the function panics where an invariant is
    /// violated.
    pub read: fn(&Path),
}

/// One target at a time: memory is counted for the whole process.
static TURN: Mutex<()> = Mutex::new(());

impl Target {
    /// Tries the corpus, then the requested number of damaged inputs.
    ///
    /// # Panics
    /// On the first failure, which it saves.
    pub fn fuzz(&self) {
        self.fuzz_with(&Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus").join(self.name));
    }

    /// [`Self::fuzz`] with a corpus elsewhere.
    ///
    /// # Panics
    /// As [`Self::fuzz`].
    pub fn fuzz_with(&self, folder: &Path) {
        let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
        let scratch = scratch(self.name);
        if let Some(input) = Input::read(&scratch).filter(|input| !input.files.is_empty()) {
            eprintln!("{}: once more what ended an earlier process: {}", self.name, scratch.display());
            self.judge(&input, &scratch).unwrap_or_else(|fault| self.failed(folder, &input, &fault));
        }
        let corpus = input::corpus(folder);
        assert!(!corpus.is_empty(), "{} is empty", folder.display());
        for input in &corpus {
            self.judge(input, &scratch).unwrap_or_else(|fault| self.failed(folder, input, &fault));
        }
        let cases = number("ALTGRAD_FUZZ_CASES").unwrap_or(CASES);
        let mut seed = [0; 32];
        seed[..4].copy_from_slice(&number("ALTGRAD_FUZZ_SEED").unwrap_or(1).to_le_bytes());
        let config = Config { cases, failure_persistence: None, ..Config::default() };
        let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &seed);
        let outcome = TestRunner::new_with_rng(config, rng).run(&mutate::damages(), |damage| {
            let input = damage.apply(&corpus, self.words);
            self.judge(&input, &scratch).map_err(TestCaseError::fail)
        });
        match outcome {
            Ok(()) => input::clear(&scratch),
            Err(TestError::Fail(reason, damage)) => {
                self.failed(folder, &damage.apply(&corpus, self.words), reason.message());
            }
            Err(TestError::Abort(reason)) => panic!("{}: {reason}", self.name),
        }
        println!("{}: {} inputs and {cases} damaged ones", self.name, corpus.len());
    }

    /// Gives an input to the target and checks the resources it used.
    fn judge(&self, input: &Input, scratch: &Path) -> Result<(), String> {
        input.write(scratch);
        let most = input.len() * self.bytes_a_byte + self.bytes;
        let mut outcome = Ok(());
        let used = limits::measured(self.name, scratch, || {
            outcome = panic::catch_unwind(|| (self.read)(scratch));
        });
        outcome.map_err(|panic| {
            let text = panic.downcast_ref::<&str>().map(|text| (*text).to_string());
            text.or(panic.downcast_ref::<String>().cloned()).unwrap_or("it panicked".into())
        })?;
        if used.bytes > most {
            return Err(format!(
                "{} bytes of memory for an input of {}, {most} are allowed",
                used.bytes,
                input.len()
            ));
        }
        if used.time > TIME {
            return Err(format!("it took {:?}", used.time));
        }
        Ok(())
    }

    fn failed(&self, folder: &Path, input: &Input, fault: &str) {
        let saved = folder.join(input.fingerprint());
        input.write(&saved);
        input::clear(&scratch(self.name));
        panic!("{}: {fault}\nthe input is saved in {}", self.name, saved.display());
    }
}

/// The path of the current case's input: beside the test's executable, so that two checkouts have two.
fn scratch(name: &str) -> PathBuf {
    let beside = std::env::current_exe().ok().and_then(|path| Some(path.parent()?.to_path_buf()));
    beside.unwrap_or_else(std::env::temp_dir).join("altgrad-fuzz").join(name)
}

/// The number that an environment variable sets. Any other text panics: the default would pass as what was asked for.
fn number(variable: &str) -> Option<u32> {
    let text = std::env::var_os(variable)?;
    let number = text.to_str().and_then(|text| text.parse().ok());
    Some(number.unwrap_or_else(|| panic!("{variable} is no number: {text:?}")))
}

#[cfg(test)]
mod tests {
    #[test]
    #[should_panic(expected = "PATH is no number: ")]
    fn a_variable_that_is_no_number_is_refused() {
        super::number("PATH");
    }
}
