//! Data: a corpus as two token sequences, and batches drawn from them.
//!
//! [`Corpus::open`] opens the data set of `[data]`, [`tokenizer`] turns text into ids, [`batches`] cuts windows at
//! positions that depend on seed and step alone (those of evaluations depend on neither). Token ids are `u16`, as in
//! nanoGPT's bins; files of wider ids are converted. [`prepare`] makes bins of data sets, [`meta`] is the description
//! beside them, [`info`] describes the contents of bins.

#![deny(missing_docs)]
#![forbid(unsafe_code)]

pub mod batches;
mod bin_file;
mod bin_layout;
mod bins;
pub mod corpus;
pub mod gpt2;
pub mod info;
pub mod meta;
mod open;
mod pickle;
pub mod prepare;
pub mod tokenizer;
mod tokens;

pub use batches::{Batch, Batches, Split};
pub use bin_layout::IdType;
pub use corpus::Corpus;
pub use tokens::Tokens;
