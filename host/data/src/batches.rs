//! Batches: windows of a token sequence, at positions that depend on seed and counter alone.

use altgrad_base::random::{self, Stream};
use rand::RngExt;

use super::{Corpus, Tokens};
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

    /// The training micro-batch of that index within the run.
    #[must_use]
    pub fn train(&self, micro_batch: u64) -> Batch {
        self.draw(&self.corpus.train, Stream::DataOrder, micro_batch)
    }

    /// A held-out batch. The same indices give the same windows at every evaluation, so that two
    /// evaluations differ by the weights alone.
    #[must_use]
    pub fn validation(&self, index: u64) -> Batch {
        self.draw(&self.corpus.val, Stream::Evaluation, index)
    }

    /// The training windows that start at the given tokens.
    #[must_use]
    pub fn train_at(&self, starts: &[usize]) -> Batch {
        self.cut(&self.corpus.train, starts)
    }

    fn draw(&self, tokens: &Tokens, stream: Stream, counter: u64) -> Batch {
        let mut generator = random::at(self.seed, stream, counter);
        // Uniform in [0, len - block), as nanoGPT draws.
        let ends = (tokens.len() - self.block_size) as u64;
        let starts: Vec<usize> =
            (0..self.batch_size).map(|_| generator.random_range(0..ends) as usize).collect();
        self.cut(tokens, &starts)
    }

    fn cut(&self, tokens: &Tokens, starts: &[usize]) -> Batch {
        let windows = |shift: usize| {
            starts.iter().flat_map(|&start| tokens.window(start + shift, self.block_size)).collect()
        };
        Batch { inputs: windows(0), targets: windows(1), shape: [starts.len(), self.block_size] }
    }
}

#[cfg(test)]
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
        let batch = batches(1).train(0);
        assert_eq!(batch.shape, [4, 8]);
        assert!(batch.inputs.iter().zip(&batch.targets).all(|(input, target)| target - input == 1));
    }

    #[test]
    fn a_batch_depends_on_seed_and_index_alone() {
        let (a, b) = (batches(1), batches(1));
        let _ = b.validation(3);
        assert_eq!(a.train(7), b.train(7));
        assert_ne!(a.train(7), a.train(8));
        assert_ne!(a.train(7), batches(2).train(7));
    }

    #[test]
    fn every_start_that_fits_is_drawn() {
        // 20 tokens, block 8: starts 0..=11, so inputs reach token 118 and targets the last one.
        let all: Vec<Batch> = (0..200).map(|index| batches(1).validation(index)).collect();
        let targets = all.iter().flat_map(|batch| &batch.targets);
        assert_eq!(targets.clone().max(), Some(&119));
        assert_eq!(all.iter().flat_map(|batch| &batch.inputs).min(), Some(&100));
    }
}
