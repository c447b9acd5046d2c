//! Data: a corpus as two token sequences, and batches drawn from them.
//!
//! [`Corpus::open`] opens the data set of `[data]`, [`tokenizer`] turns text into ids, [`batches`] cuts windows at positions that
//! depend on seed and step alone (those of evaluations depend on neither). Token ids are `u16`, as in nanoGPT's bins. [`prepare`]
//! makes bins of data sets, [`meta`] is the description beside them, [`info`] describes the contents of bins.

#![deny(missing_docs)]
#![deny(unsafe_code)]

pub mod batches;
mod bins;
pub mod corpus;
pub mod gpt2;
pub mod info;
pub mod meta;
#[allow(unsafe_code)]
mod mmap;
mod open;
pub mod prepare;
pub mod tokenizer;
mod tokens;

pub use batches::{Batch, Batches, Split};
pub use corpus::Corpus;
pub use tokens::Tokens;
