//! Batches: windows of a token sequence, at positions that depend on seed and counter alone; the windows of evaluations
//! depend on the counter alone.

use altgrad_base::{
    diagnostic::Diagnostic,
    random::{self, Stream},
};
use rand::{Rng, RngExt};

use super::{Corpus, Tokens};

/// Seed of the evaluation windows of every run, whatever its own seed: losses of several seeds differ by the weights
/// alone.
const EVALUATION_SEED: u64 = 1337;

/// A part of a corpus.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Split {
    /// Tokens to train on.
    Train,
    /// Tokens held out.
    Validation,
}

/// Inputs and next-token targets, row-major `[batch, block]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Batch {
    /// Token ids seen.
    pub inputs: Vec<i32>,
    /// The token that follows each of them.
    pub targets: Vec<i32>,
    /// `[batch, block]`.
    pub shape: [usize; 2],
}

/// Draws the batches of a run.
#[derive(Debug)]
pub struct Batches {
    corpus: Corpus,
    seed: u64,
    batch_size: usize,
    block_size: usize,
}

impl Batches {
    /// Batches of `batch_size` windows of `block_size` tokens. The corpus has passed [`Corpus::open`]'s checks.
    #[must_use]
    pub fn new(corpus: Corpus, seed: u64, batch_size: usize, block_size: usize) -> Self {
        Self { corpus, seed, batch_size, block_size }
    }

    /// The corpus.
    #[must_use]
    pub fn corpus(&self) -> &Corpus {
        &self.corpus
    }

    /// The training micro-batch of that index within a step. Those of a step are consecutive parts of one draw, so that
    /// micro-batches of 1 and of 8 windows see the same ones.
    ///
    /// # Errors
    /// The data cannot be read, have changed, or have an id beyond the vocabulary.
    pub fn train(&self, step: u64, micro_batch: usize) -> Result<Batch, Diagnostic> {
        let mut generator = random::at(self.seed, Stream::DataOrder, step);
        let tokens = &self.corpus.train;
        for _ in 0..micro_batch {
            let _ = self.starts(tokens, &mut generator);
        }
        self.draw(tokens, generator)
    }

    /// The first `count` batches of an evaluation by sample. They depend on the split's length and on the batches'
    /// shape alone, so that evaluations of all runs differ by the weights alone. Errors are those of [`Self::train`].
    pub fn sample(&self, split: Split, count: u64) -> impl Iterator<Item = Result<Batch, Diagnostic>> {
        let tokens = self.tokens(split);
        (0..count).map(move |index| self.draw(tokens, random::at(EVALUATION_SEED, Stream::Evaluation, index)))
    }

    /// The whole split as consecutive windows that share no target: every token but the first is predicted once. The
    /// last two batches may be smaller: one of fewer windows, and one of a single shorter window. Errors are those of
    /// [`Self::train`].
    pub fn whole(&self, split: Split) -> impl Iterator<Item = Result<Batch, Diagnostic>> {
        let tokens = self.tokens(split);
        let predicted = tokens.len().saturating_sub(1);
        let (windows, rest) = (predicted / self.block_size, predicted % self.block_size);
        let full = (0..windows).step_by(self.batch_size).map(move |first| {
            let last = (first + self.batch_size).min(windows);
            let starts: Vec<usize> = (first..last).map(|window| window * self.block_size).collect();
            self.cut(tokens, &starts, self.block_size)
        });
        let shorter = (rest > 0).then(|| self.cut(tokens, &[windows * self.block_size], rest));
        full.chain(shorter)
    }

    /// The training windows that start at the given tokens.
    ///
    /// # Errors
    /// As [`Self::train`].
    pub fn train_at(&self, starts: &[usize]) -> Result<Batch, Diagnostic> {
        self.cut(&self.corpus.train, starts, self.block_size)
    }

    /// The tokens of a split.
    #[must_use]
    pub fn tokens(&self, split: Split) -> &Tokens {
        match split {
            Split::Train => &self.corpus.train,
            Split::Validation => &self.corpus.val,
        }
    }

    fn draw(&self, tokens: &Tokens, mut generator: impl Rng) -> Result<Batch, Diagnostic> {
        self.cut(tokens, &self.starts(tokens, &mut generator), self.block_size)
    }

    /// The starts of the windows of a batch: uniform in [0, len - block), as nanoGPT draws.
    fn starts(&self, tokens: &Tokens, generator: &mut impl Rng) -> Vec<usize> {
        let ends = (tokens.len() - self.block_size) as u64;
        (0..self.batch_size).map(|_| generator.random_range(0..ends) as usize).collect()
    }

    /// Windows of `length` tokens.
    fn cut(&self, tokens: &Tokens, starts: &[usize], length: usize) -> Result<Batch, Diagnostic> {
        let vocab = self.corpus.tokenizer.vocab();
        let (mut inputs, mut targets) = (Vec::new(), Vec::new());
        for &start in starts {
            let window = tokens.read(start..start + length + 1)?;
            // Checked at the start of the run: only a file that changes has others.
            if let Some(id) = window.iter().find(|id| usize::from(**id) >= vocab) {
                return Err(Diagnostic::run(format!("token id {id} is beyond the vocabulary of {vocab}"))
                    .at(&self.corpus.description)
                    .hint("the data changed during the run: restore them, then `--resume` continues it"));
            }
            inputs.extend(window[..length].iter().copied().map(i32::from));
            targets.extend(window[1..].iter().copied().map(i32::from));
        }
        Ok(Batch { inputs, targets, shape: [starts.len(), length] })
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::tokenizer::Tokenizer;

    fn batches(seed: u64) -> Batches {
        let corpus = Corpus {
            train: Tokens::Memory((0..100).collect()),
            val: Tokens::Memory((100..120).collect()),
            tokenizer: Tokenizer::Byte,
            description: String::new(),
        };
        Batches::new(corpus, seed, 4, 8)
    }

    #[test]
    fn targets_follow_inputs() {
        let batch = batches(1).train(0, 0).unwrap();
        assert_eq!(batch.shape, [4, 8]);
        assert!(batch.inputs.iter().zip(&batch.targets).all(|(input, target)| target - input == 1));
    }

    #[test]
    fn a_batch_depends_on_seed_and_index_alone() {
        let (a, b) = (batches(1), batches(1));
        let _ = b.sample(Split::Validation, 3).last();
        assert_eq!(a.train(7, 1), b.train(7, 1));
        assert_ne!(a.train(7, 0), a.train(8, 0));
        assert_ne!(a.train(7, 0), batches(2).train(7, 0));
    }

    #[test]
    fn micro_batches_of_a_step_are_parts_of_one_draw() {
        let windows = |batch_size: usize| -> Vec<i32> {
            let batches = Batches { batch_size, ..batches(1) };
            (0..4 / batch_size)
                .flat_map(|micro_batch| batches.train(5, micro_batch).unwrap().inputs)
                .collect()
        };
        assert_eq!(windows(4).len(), 32);
        assert_eq!((windows(4), windows(4)), (windows(1), windows(2)));
    }

    #[test]
    fn all_seeds_evaluate_the_same_windows() {
        let evaluated =
            |seed, split| -> Vec<Batch> { batches(seed).sample(split, 5).map(Result::unwrap).collect() };
        for split in [Split::Train, Split::Validation] {
            let first = evaluated(1, split);
            assert_eq!(first, evaluated(2, split));
            assert_eq!(first, evaluated(1337, split));
            assert_ne!(first[0], first[1]);
        }
    }

    #[test]
    fn every_start_that_fits_is_drawn() {
        // 20 tokens, block 8: starts 0..=11, so inputs reach token 118 and targets the last one.
        let all: Vec<Batch> = batches(1).sample(Split::Validation, 200).map(Result::unwrap).collect();
        let targets = all.iter().flat_map(|batch| &batch.targets);
        assert_eq!(targets.clone().max(), Some(&119));
        assert_eq!(all.iter().flat_map(|batch| &batch.inputs).min(), Some(&100));
    }

    #[test]
    fn a_whole_split_predicts_each_token_but_the_first_once() {
        for (len, shapes) in [
            (100, vec![[4, 8], [4, 8], [4, 8], [1, 3]]),
            (97, vec![[4, 8], [4, 8], [4, 8]]),
            (49, vec![[4, 8], [2, 8]]),
            (9, vec![[1, 8]]),
        ] {
            let mut batches = batches(1);
            batches.corpus.val = Tokens::Memory((0..len).collect());
            let all: Vec<Batch> = batches.whole(Split::Validation).map(Result::unwrap).collect();
            assert_eq!(all.iter().map(|batch| batch.shape).collect::<Vec<_>>(), shapes);
            let targets: Vec<i32> = all.iter().flat_map(|batch| batch.targets.clone()).collect();
            assert_eq!(targets, (1..i32::from(len)).collect::<Vec<_>>());
            assert!(all.iter().all(|batch| batch.inputs.iter().zip(&batch.targets).all(|(a, b)| b - a == 1)));
        }
    }

    #[test]
    fn ids_beyond_the_vocabulary_are_refused() {
        let mut batches = batches(1);
        batches.corpus.train = Tokens::Memory([vec![0; 9], vec![256; 9]].concat());
        let refused = (0..20).find_map(|index| batches.train(index, 0).err()).unwrap();
        assert_eq!(refused.message, "token id 256 is beyond the vocabulary of 256");
    }
}
