//! `data prepare`: a data set to token bins.
//!
//! [`sources`] lists the data sets, [`download`] fetches one. `input` finds the files, `reader` (with `archive`,
//! `plain`, `lines`, `text`) streams their records as `items`, `density` refuses archives that unpack to far too much,
//! `layout` makes text of a record, `pipeline` encodes in parallel, `writer` makes the bins in the folder that `claim`
//! locks. Records that cannot be used are counted (`skip`) or, with `--strict`, refused.

mod archive;
mod claim;
mod density;
pub mod download;
mod input;
mod items;
mod layout;
mod lines;
mod pipeline;
mod plain;
mod progress;
mod reader;
pub mod skip;
pub mod sources;
mod text;
mod writer;

use std::{collections::BTreeMap, path::PathBuf};

pub use self::progress::PrepareProgress;
use self::{
    claim::Claim,
    input::Input,
    layout::Layout,
    pipeline::{Pipeline, Splitting},
    skip::Skips,
    sources::Dataset,
    writer::Bins,
};
use super::{
    gpt2,
    meta::{DataSource, Meta, Recipe},
    tokenizer::Tokenizer,
};
use altgrad_base::diagnostic::Diagnostic;
use altgrad_config::TokenizerChoice;

/// Raised when the same input and options result in other bins.
const fn recipe_version(dataset: Dataset) -> u32 {
    match dataset {
        // 2: the alphabet of one text is its own, without a line end that it does not have.
        Dataset::Text => 2,
        Dataset::Eurlex | Dataset::Eurlex57k | Dataset::MultiEurlex => 1,
    }
}

/// A requested preparation.
#[derive(Debug, Clone)]
pub struct Request {
    /// The data set.
    pub dataset: Dataset,
    /// A file or folder to read; the published archive is downloaded otherwise.
    pub input: Option<PathBuf>,
    /// The folder for the bins.
    pub out: PathBuf,
    /// The language to take, for [`Dataset::MultiEurlex`] alone.
    pub language: Option<String>,
    /// True if documents begin with their titles, for [`Dataset::Eurlex57k`] only.
    pub title: bool,
    /// The tokenizer.
    pub tokenizer: TokenizerChoice,
    /// True if splits that the data set names are used.
    pub own_split: bool,
    /// The share held out of documents that the data set tells to no split.
    pub val_fraction: f64,
    /// True if a record that cannot be used is an error.
    pub strict: bool,
    /// True if bins of another preparation are replaced.
    pub force: bool,
    /// A folder's URL to try first for the archive.
    pub mirror: Option<String>,
}

/// The result of a preparation.
#[derive(Debug)]
pub struct PreparedData {
    /// The description of the bins.
    pub meta: Meta,
    /// True if the bins existed already.
    pub unchanged: bool,
    /// Skipped records, as lines of text.
    pub skipped: Vec<String>,
}

/// Makes the bins, unless the folder holds them already.
///
/// # Errors
/// The request is invalid, the archive cannot be fetched, the input cannot be read, or the disk cannot be written.
pub fn prepare(request: &Request, progress: &dyn PrepareProgress) -> Result<PreparedData, Diagnostic> {
    let layout = check(request)?;
    // Found wrong before a folder is made.
    if let Some(path) = &request.input {
        Input::find(path, request.dataset, &request.out)?;
    }
    let _claim = Claim::of(&request.out)?;
    let root = match (&request.input, request.dataset.archive()) {
        (Some(path), _) => path.clone(),
        (None, Some(archive)) => {
            download::fetch(&archive, &request.out.join("source"), request.mirror.as_deref(), progress)?
        }
        (None, None) => {
            return Err(
                Diagnostic::config("`text` needs an input").hint("add --input FILE or --input FOLDER")
            );
        }
    };
    let input = Input::find(&root, request.dataset, &request.out)?;
    let recipe = recipe(request, input.fingerprint(progress)?);
    if let Some(meta) = existing(request, &recipe)? {
        return Ok(PreparedData { skipped: Vec::new(), meta, unchanged: true });
    }
    let splitting = Splitting { own: request.own_split, val_fraction: request.val_fraction };
    make(request, recipe, &Pipeline { input: &input, layout: &layout, splitting, progress })
}

fn make(request: &Request, recipe: Recipe, pipeline: &Pipeline<'_>) -> Result<PreparedData, Diagnostic> {
    let (tokenizer, separator) = tokenizer(request.tokenizer, pipeline)?;
    let mut skips = Skips::new(request.strict);
    let mut bins = Bins::new(&request.out, separator.clone())?;
    pipeline.encode(&tokenizer, |encoded| bins.add(encoded, &mut skips))?;
    // Of one text a part is no data set; a run of the file refuses it, too.
    let is_cut = pipeline.input.is_one_text() && skips.lost_text();
    if bins.documents() == 0 || is_cut {
        // One text is counted twice, as two splits.
        let reasons = if pipeline.input.is_one_text() { skips.firsts() } else { skips.lines() };
        let reasons = reasons.join("; ");
        let why = if reasons.is_empty() { String::new() } else { format!(": {reasons}") };
        let hint = match pipeline.fitting()? {
            Some(fitting) => format!("its records fit `data prepare {fitting}`"),
            None if request.dataset == Dataset::Text => {
                "`text` takes files with text in UTF-8, or JSON lines with a field `text`".to_owned()
            }
            None => format!("is it the data set `{}`?", request.dataset.name()),
        };
        return Err(Diagnostic::config(format!("no document can be used{why}"))
            .at(pipeline.input.root.display())
            .hint(hint));
    }
    let characters = match &tokenizer {
        Tokenizer::Char(characters) => Some(characters.iter().collect()),
        _ => None,
    };
    let meta = Meta {
        vocab_size: tokenizer.vocab() as u64,
        made_by: Some(concat!("altgrad-host ", env!("CARGO_PKG_VERSION")).into()),
        tokenizer: Some(recipe.tokenizer),
        characters,
        dtype: None,
        separator,
        split_rule: Some(split_rule(request)),
        licence: request.dataset.licence().map(String::from),
        splits: BTreeMap::new(),
        skipped: skips.counts(),
        recipe: Some(recipe),
    };
    Ok(PreparedData { meta: bins.publish(meta)?, unchanged: false, skipped: skips.lines() })
}

/// Refuses options that do not go together.
fn check(request: &Request) -> Result<Layout, Diagnostic> {
    let dataset = request.dataset;
    let language = request.language.clone();
    match (&language, dataset) {
        (None, Dataset::MultiEurlex) => {
            return Err(Diagnostic::config("`multi_eurlex` needs a language").hint("for English: --lang en"));
        }
        (Some(language), Dataset::MultiEurlex) if !sources::LANGUAGES.contains(&language.as_str()) => {
            let known = sources::LANGUAGES.join(", ");
            return Err(Diagnostic::config(format!("`multi_eurlex` has no language `{language}`"))
                .hint(format!("it has {known}")));
        }
        (Some(_), Dataset::Eurlex | Dataset::Eurlex57k | Dataset::Text) => {
            return Err(Diagnostic::config(format!("`{}` has one language", dataset.name()))
                .hint("--lang is for multi_eurlex"));
        }
        _ => {}
    }
    if request.title && dataset != Dataset::Eurlex57k {
        return Err(Diagnostic::config(format!("`{}` has no titles apart from the text", dataset.name()))
            .hint("--title is for eurlex57k"));
    }
    if !(request.val_fraction > 0.0 && request.val_fraction < 1.0) {
        let message = format!("`--val-fraction` must be above 0 and below 1, found {}", request.val_fraction);
        return Err(Diagnostic::config(message).hint("--val-fraction 0.1 holds out every tenth document"));
    }
    if request.tokenizer == TokenizerChoice::Ids {
        return Err(no_tokenizer());
    }
    if dataset == Dataset::Text && request.input.is_none() {
        return Err(Diagnostic::config("`text` needs an input").hint("add --input FILE or --input FOLDER"));
    }
    Ok(Layout { dataset, language, title: request.title })
}

fn no_tokenizer() -> Diagnostic {
    Diagnostic::config("`ids` names no tokenizer: it is for bins made elsewhere")
        .hint("--tokenizer byte fits every text")
}

fn recipe(request: &Request, source: DataSource) -> Recipe {
    Recipe {
        version: recipe_version(request.dataset),
        dataset: request.dataset.name().into(),
        language: request.language.clone(),
        title: request.title,
        tokenizer: request.tokenizer,
        split: if request.own_split { "own" } else { "hash" }.into(),
        val_fraction: request.val_fraction,
        source,
    }
}

fn split_rule(request: &Request) -> String {
    let hash = format!(
        "by SHA-256 of the act's number, else of the text file's name, else of the text: {} of the documents held out",
        request.val_fraction
    );
    match (request.own_split, request.dataset) {
        (false, _) => hash,
        (true, Dataset::Text) => {
            format!(
                "a text file alone: its first nine tenths to train on; else train, val and test as paths name them; else {hash}"
            )
        }
        (true, _) => format!("the data set's own (dev is val); documents that name none {hash}"),
    }
}

/// The description of existing bins that equal the result of this request.
fn existing(request: &Request, recipe: &Recipe) -> Result<Option<Meta>, Diagnostic> {
    if request.force {
        return Ok(None);
    }
    let out = &request.out;
    let meta = Meta::read(out).map_err(|error| error.hint("--force replaces it"))?;
    let bin = |split: &str| out.join(format!("{split}.bin"));
    if !["train", "val", "test"].into_iter().any(|split| bin(split).exists()) {
        // A description without bins is left by an interrupted preparation.
        return Ok(None);
    }
    let refuse = |what: String| {
        let hint = "choose another --out, or replace them with --force";
        Err(Diagnostic::config(what).at(out.display()).hint(hint))
    };
    let Some((meta, made)) = meta.and_then(|meta| meta.recipe.clone().map(|made| (meta, made))) else {
        return refuse("the folder holds bins that `data prepare` did not make".into());
    };
    if made != *recipe {
        return refuse(format!(
            "the folder holds bins of another preparation ({})",
            difference(&made, recipe)
        ));
    }
    let whole = meta.splits.iter().all(|(split, facts)| {
        input::sha256(&bin(split), &mut |_| {}).is_ok_and(|sha256| sha256 == facts.sha256)
    });
    // Damaged bins are replaced; with --strict, so are bins with skipped records, to report the skipped ones.
    Ok(Some(meta).filter(|meta| whole && (!request.strict || meta.skipped.is_empty())))
}

/// The first difference between recipes.
fn difference(made: &Recipe, asked: &Recipe) -> String {
    let say = |what: &str, made: String, asked: String| format!("{what} was {made}, is {asked} now");
    let source = |source: &DataSource| format!("{} (sha256 {:.12})", source.name, source.sha256);
    if made.dataset != asked.dataset {
        say("the data set", made.dataset.clone(), asked.dataset.clone())
    } else if made.source != asked.source {
        say("the input", source(&made.source), source(&asked.source))
    } else if made.tokenizer != asked.tokenizer {
        say("the tokenizer", made.tokenizer.to_string(), asked.tokenizer.to_string())
    } else if made.version != asked.version {
        say("the way bins are made", made.version.to_string(), asked.version.to_string())
    } else {
        "language, titles or splits differ".into()
    }
}

/// The tokenizer, and the ids that end a document: the end of a text for GPT-2, a line end otherwise, none for one
/// text.
fn tokenizer(choice: TokenizerChoice, pipeline: &Pipeline<'_>) -> Result<(Tokenizer, Vec<u16>), Diagnostic> {
    let separated = !pipeline.input.is_one_text();
    let tokenizer = match choice {
        TokenizerChoice::Gpt2 => Tokenizer::Gpt2,
        TokenizerChoice::Byte => Tokenizer::Byte,
        TokenizerChoice::Char => {
            let mut characters = pipeline.characters()?;
            characters.extend(separated.then_some('\n'));
            Tokenizer::Char(characters.into_iter().collect())
        }
        TokenizerChoice::Ids => return Err(no_tokenizer()),
    };
    let separator = match choice {
        _ if !separated => Vec::new(),
        TokenizerChoice::Gpt2 => vec![gpt2::END_OF_TEXT],
        _ => tokenizer.encode("\n")?,
    };
    Ok((tokenizer, separator))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests;
