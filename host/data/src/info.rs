//! Statistics of token bins: documents, tokens, bytes per token, lengths, and the used share of the
//! vocabulary.

use std::path::Path;

use altgrad_base::diagnostic::Diagnostic;
use serde::Serialize;

use super::{
    Tokens, gpt2,
    meta::{self, Meta},
    tokenizer::Tokenizer,
};
/// A folder of bins.
#[derive(Debug, Serialize)]
pub struct Info {
    /// Number of ids.
    pub vocab_size: usize,
    /// The bins.
    pub splits: Vec<SplitInfo>,
    /// The description beside them, if there is one.
    pub meta: Option<Meta>,
}

/// One bin. Unknown values are absent.
#[derive(Debug, Serialize)]
pub struct SplitInfo {
    /// `train`, `val` or `test`.
    pub name: &'static str,
    /// Documents.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub documents: Option<u64>,
    /// Ids, separators included.
    pub tokens: u64,
    /// Bytes of text a token, separators not counted as text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bytes_per_token: Option<f64>,
    /// Documents by length, as [`meta::SplitBin::lengths`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lengths: Option<Vec<u64>>,
    /// Ids that occur.
    pub ids_used: u64,
    /// Their share of the vocabulary.
    pub coverage: f64,
}

/// Reads the bins of a folder.
///
/// # Errors
/// There are no bins, or they differ from `meta.json`.
pub fn read(folder: &Path) -> Result<Info, Diagnostic> {
    let meta = Meta::read(folder)?;
    let tokenizer = match &meta {
        Some(meta) => meta.tokenizer()?,
        None => Tokenizer::Gpt2,
    };
    let mut splits = Vec::new();
    for name in ["train", "val", "test"] {
        let path = folder.join(format!("{name}.bin"));
        // A test bin is not required, and a caller that only describes bins requires none.
        if path.exists() {
            let tokens = Tokens::open(&path, meta.as_ref().and_then(|meta| meta.dtype))?;
            splits.push(
                split(name, &tokens, meta.as_ref(), &tokenizer).map_err(|error| error.at(path.display()))?,
            );
        }
    }
    if splits.is_empty() {
        return Err(Diagnostic::config("there are no token bins")
            .at(folder.display())
            .hint("`altgrad-host data prepare` makes train.bin and val.bin"));
    }
    Ok(Info { vocab_size: tokenizer.vocab(), splits, meta })
}

fn split(
    name: &'static str,
    tokens: &Tokens,
    meta: Option<&Meta>,
    tokenizer: &Tokenizer,
) -> Result<SplitInfo, Diagnostic> {
    let count = tokens.len() as u64;
    if let Some(meta) = meta {
        meta.check(name, count)?;
    }
    let mut used = vec![false; tokenizer.vocab()];
    for part in tokens.parts() {
        for id in part?.iter() {
            let seen = used.get_mut(usize::from(*id)).ok_or_else(|| {
                Diagnostic::config(format!("token id {id} is beyond the vocabulary of {}", tokenizer.vocab()))
                    .hint("set vocab_size in the folder's meta.json")
            })?;
            *seen = true;
        }
    }
    let known = meta.and_then(|meta| meta.splits.get(name)).cloned();
    let facts = match known {
        Some(facts) => Some(facts),
        // GPT-2's ids determine where documents end and their text.
        None if *tokenizer == Tokenizer::Gpt2 => Some(recount(tokens)?),
        None => None,
    };
    let ids_used = used.iter().filter(|used| **used).count();
    Ok(SplitInfo {
        name,
        documents: facts.as_ref().map(|facts| facts.documents),
        tokens: count,
        bytes_per_token: facts
            .as_ref()
            .filter(|_| count > 0)
            .map(|facts| facts.text_bytes as f64 / count as f64),
        lengths: facts.map(|facts| facts.lengths),
        ids_used: ids_used as u64,
        coverage: ids_used as f64 / used.len() as f64,
    })
}

/// Documents, lengths and bytes of a bin of GPT-2's ids.
fn recount(tokens: &Tokens) -> Result<meta::SplitBin, Diagnostic> {
    let bytes: Result<Vec<u64>, Diagnostic> =
        (0..gpt2::END_OF_TEXT).map(|id| Ok(gpt2::decode(&[id])?.len() as u64)).collect();
    let bytes = bytes?;
    let mut facts = meta::SplitBin { tokens: tokens.len() as u64, ..meta::SplitBin::default() };
    let mut length = 0;
    for part in tokens.parts() {
        for id in part?.iter() {
            if *id == gpt2::END_OF_TEXT {
                facts.count(length);
                length = 0;
            } else {
                facts.text_bytes += bytes[usize::from(*id)];
                length += 1;
            }
        }
    }
    if length > 0 {
        facts.count(length);
    }
    Ok(facts)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn bins(ids: &[u16], meta: &str) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        let bytes: Vec<u8> = ids.iter().flat_map(|id| id.to_le_bytes()).collect();
        std::fs::write(folder.path().join("train.bin"), bytes).unwrap();
        if !meta.is_empty() {
            std::fs::write(folder.path().join("meta.json"), meta).unwrap();
        }
        folder
    }

    #[test]
    fn gpt2_bins_without_description_are_counted() {
        // "The Council", end; end; "Council".
        let folder = bins(&[464, 4281, 50256, 50256, 4281], "");
        let info = read(folder.path()).unwrap();
        let train = &info.splits[0];
        assert_eq!((train.documents, train.tokens, train.ids_used), (Some(3), 5, 3));
        assert_eq!(train.bytes_per_token, Some((3.0 + 8.0 + 8.0) / 5.0));
        assert_eq!(train.lengths, Some(vec![2, 1]));
        assert_eq!(info.splits.len(), 1);
    }

    #[test]
    fn what_only_others_know_is_absent() {
        let folder = bins(&[1, 2, 2], r#"{"vocab_size": 4}"#);
        let info = read(folder.path()).unwrap();
        let train = &info.splits[0];
        assert_eq!((train.documents, train.bytes_per_token, train.coverage), (None, None, 0.5));
        assert!(read(bins(&[4], r#"{"vocab_size": 4}"#).path()).is_err());
        assert!(read(tempfile::tempdir().unwrap().path()).is_err());
    }
}
