//! A seeded generator of EurLex-shaped legal acts in English, the default corpus of the bench.
//!
//! A training run needs text that a small model can learn from and that is the same on every
//! machine, and a fresh machine should need no download to get it. Each act is built from phrase
//! tables by a small grammar: a title, citations, recitals, articles whose cross-references really
//! exist, a closing formula and sometimes annexes. One act keeps to one subject, product, country
//! and legal basis, so that a model gains from looking back over a long stretch of text.
//!
//! Guarantees: an act is a pure function of `(seed, index)`; sampling uses integers only, so the
//! bytes are the same on every platform; the text is ASCII; titles never repeat within a seed,
//! because the number and the year of an act are an injective function of its index. The wording,
//! the numbers and the legal bases are invented, and no act here has any legal meaning.

#![deny(missing_docs)]
#![forbid(unsafe_code)]

mod annex;
mod articles;
mod body;
mod context;
mod expand;
mod identity;
mod lexicon;
mod phrases;
mod plan;
mod preamble;
mod recitals;
mod sampler;
mod subject;
mod values;

#[cfg(test)]
mod tests;

use context::Context;

/// Least size of the default corpus, in bytes of act text.
pub const MIN_BYTES: usize = 5 << 20;

/// One generated legal act.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Act {
    /// Title on one line, without a line break; no two acts of a seed share it.
    pub title: String,
    /// The whole act, title included: ASCII, lines separated by `\n`, ending with `\n`.
    pub text: String,
}

/// Returns the act number `index` of the corpus drawn from `seed`.
///
/// The result depends on the two arguments alone, so acts may be generated in any order.
pub fn act(seed: u64, index: u64) -> Act {
    let mut context = Context::new(seed, index);
    let title = preamble::title(&mut context);
    let mut text = String::with_capacity(8 << 10);
    text.push_str(&title);
    text.push('\n');
    preamble::write(&mut context, &mut text);
    body::write(&mut context, &mut text);
    annex::write(&mut context, &mut text);
    Act { title, text }
}

/// Returns acts 0, 1, 2, ... of `seed`, stopping once their texts reach `min_bytes` bytes together.
///
/// The corpus of a smaller `min_bytes` is a prefix of that of a larger one.
pub fn corpus(seed: u64, min_bytes: usize) -> Vec<Act> {
    let mut acts = Vec::new();
    let mut bytes = 0;
    let mut index = 0;
    while bytes < min_bytes {
        let next = act(seed, index);
        bytes += next.text.len();
        acts.push(next);
        index += 1;
    }
    acts
}
