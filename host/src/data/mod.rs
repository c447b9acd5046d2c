//! Data: a corpus as two token sequences, and batches drawn from them.
//!
//! [`corpus`] opens what `[data]` names, [`tokenizer`] turns text into ids, [`batches`] cuts windows at
//! positions that depend on seed and step alone. Token ids are `u16`, as in nanoGPT's bins.

pub mod batches;
mod bins;
pub mod corpus;
pub mod lawgen;
pub mod tokenizer;
mod tokens;

pub use batches::{Batch, Batches};
pub use corpus::Corpus;
pub use tokens::Tokens;
