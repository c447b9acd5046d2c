//! A trained model on disk: weights, and the resolved run file beside them.
//!
//! A model is named by its run folder, by one of its checkpoints, or by a weights file. Only the files named here are
//! read: neither corpus nor plugins need to exist. [`SavedModel::state`] also has the run's state beside its weights.

use std::{
    fs,
    path::{Path, PathBuf},
};

use altgrad_base::diagnostic::Diagnostic;
use altgrad_config::{RunConfig, Source};
use altgrad_data::{Corpus, tokenizer::Tokenizer};
use altgrad_run_folder::folder::{CONFIG, WEIGHTS};

use crate::{
    checkpoint::{WeightsState, layout::MODEL, read},
    model::{GptShape, Layout, weights::WeightsFile},
    quant::Quantizer,
    setup::config_of,
};

/// Places in a run folder that are searched for weights, in this order: the final weights, the newest checkpoint's, the
/// best one's.
const PLACES: [&str; 3] = [".", "checkpoints/last", "checkpoints/best"];
/// Bytes of the longest pointer file: it holds a folder's name.
const LONGEST_POINTER: u64 = 4096;

/// A trained model.
#[derive(Debug)]
pub struct SavedModel {
    /// The resolved run file.
    pub config: RunConfig,
    /// The source of its keys.
    pub source: Source,
    /// The shape, with the vocabulary of the weights.
    pub shape: GptShape,
    /// The parameters.
    pub layout: Layout,
    /// Their values, in the layout's order, `[n]` each.
    pub values: Vec<Vec<f32>>,
    /// The weights file.
    pub weights: PathBuf,
    /// The note in its metadata: the state of final weights.
    note: Option<String>,
}

impl SavedModel {
    /// Reads the model at `path`: a run folder, a checkpoint folder (or a pointer to one), or a weights file with its
    /// `config.toml` beside it.
    ///
    /// # Errors
    /// The name of a missing or damaged file.
    pub fn open(path: &Path) -> Result<Self, Diagnostic> {
        let weights = find(path)?;
        let beside = weights.with_file_name(CONFIG);
        if !beside.is_file() {
            return Err(Diagnostic::config(format!("there is no {CONFIG} beside the weights"))
                .at(weights.display())
                .hint("it has the model's shape, tokenizer and casts; name the run's folder or a checkpoint, or copy both"));
        }
        let (config, source) = altgrad_config::load(&beside, &[])?;
        let file = WeightsFile::open(&weights)?;
        let (vocab, blocks) = file.size()?;
        // Checked before a model of the run file's size is allocated.
        if blocks != config.model.n_layer {
            let message =
                format!("the weights have {blocks} blocks, the run file says {}", config.model.n_layer);
            return Err(Diagnostic::config(message)
                .at(format!("{} and {}", weights.display(), source.locate("model.n_layer")))
                .hint("use the config.toml of the run that wrote the weights"));
        }
        let shape = GptShape::new(&config.model, config.data.block_size, vocab);
        let layout = Layout::new(&shape);
        let (values, note) = (file.values(&layout)?, file.note()?);
        Ok(Self { config, source, shape, layout, values, weights, note })
    }

    /// The state of these weights: that of their checkpoint, or the one that a run wrote with its final weights. `None`
    /// for weights of other programs and of earlier versions.
    ///
    /// # Errors
    /// The state is damaged.
    pub fn state(&self) -> Result<Option<WeightsState>, Diagnostic> {
        if self.weights.file_name().is_some_and(|name| name == MODEL) {
            let folder = self.weights.parent().unwrap_or(Path::new(""));
            return Ok(read::state_of(folder)?.map(WeightsState::from));
        }
        let state = self.note.as_deref().map(WeightsState::parse).transpose();
        state.map_err(|error| error.at(self.weights.display()))
    }

    /// The run file with the casts that were in force when the weights were written, if a schedule changed them.
    ///
    /// # Errors
    /// The run file has a schedule, and the state with its changes so far is missing or damaged.
    pub fn config_in_force(&self) -> Result<RunConfig, Diagnostic> {
        let schedule = &self.config.quant.schedule;
        if schedule.is_empty() {
            return Ok(self.config.clone());
        }
        let state = self.state()?.ok_or_else(|| self.unknown("casts", "the run file has a schedule"))?;
        let phase = state.schedule.last().and_then(|switch| schedule.get(switch.entry));
        Ok(phase.map_or_else(|| self.config.clone(), |phase| config_of(&self.config, phase)))
    }

    /// Gives rounding the scales and the random bits with which the run evaluated these weights.
    ///
    /// # Errors
    /// Scales follow from past steps, and the state of the weights is missing, damaged or of other casts.
    pub fn restore(&self, quant: &mut Quantizer) -> Result<(), Diagnostic> {
        match self.state()? {
            Some(state) => {
                quant.restore_history(&state.history).map_err(|error| error.at(self.weights.display()))?;
                quant.state.step = state.step;
                Ok(())
            }
            None if quant.history().is_empty() => Ok(()),
            None => Err(self.unknown("scales", "they follow from past steps of the run")),
        }
    }

    fn unknown(&self, what: &str, why: &str) -> Diagnostic {
        Diagnostic::config(format!("the {what} of the weights are unknown: {why}, and the file has no state"))
            .at(self.weights.display())
            .hint("name the run's folder or a checkpoint of it, such as its checkpoints/last; `--full-precision` needs no casts")
    }

    /// Opens the data of the run.
    ///
    /// # Errors
    /// They cannot be read.
    pub fn corpus(&self) -> Result<Corpus, Diagnostic> {
        const ELSEWHERE: &str = "`--dataset` names the same data at another place, as on another machine";
        Corpus::open(&self.config.data).map_err(|mut error| {
            let own = error.hint.take().map_or_else(String::new, |own| format!("{own}; "));
            error.hint(own + ELSEWHERE).at(self.source.locate("data.dataset"))
        })
    }

    /// Refuses a tokenizer with ids that the weights do not have.
    ///
    /// # Errors
    /// The corpus differs from the run's.
    pub fn check_vocab(&self, tokenizer: &Tokenizer) -> Result<(), Diagnostic> {
        if tokenizer.vocab() <= self.shape.vocab {
            return Ok(());
        }
        let message = format!(
            "the tokenizer has {} ids, the weights {}: they do not belong together",
            tokenizer.vocab(),
            self.shape.vocab
        );
        Err(Diagnostic::config(message).at(self.weights.display()).hint(match tokenizer {
            Tokenizer::Char(_) => "the corpus has changed since the run; restore it, or name it with `--dataset`",
            _ => "the run's data had other ids: set `data.tokenizer` = \"ids\" in the config.toml beside the weights if the data set is token bins, and describe these in their meta.json",
        }))
    }
}

/// The weights file that `path` refers to.
fn find(path: &Path) -> Result<PathBuf, Diagnostic> {
    let metadata = fs::metadata(path).map_err(|error| {
        Diagnostic::config(format!("cannot read the checkpoint ({error})"))
            .at(path.display())
            .hint("give a run folder such as runs/exp, a checkpoint of it, or a weights file")
    })?;
    if metadata.is_dir() {
        let found = PLACES.iter().find_map(|place| in_folder(&followed(&path.join(place))));
        return found.ok_or_else(|| {
            Diagnostic::config("the folder holds no weights")
                .at(path.display())
                .hint(format!("looked for {WEIGHTS}, {MODEL}, checkpoints/last and checkpoints/best; did the run end before its first checkpoint?"))
        });
    }
    let target = followed(path);
    Ok(in_folder(&target).unwrap_or(target))
}

fn in_folder(folder: &Path) -> Option<PathBuf> {
    [WEIGHTS, MODEL].iter().map(|name| folder.join(name)).find(|file| file.is_file())
}

/// The checkpoint that a pointer file names; `path` itself if it is none.
fn followed(path: &Path) -> PathBuf {
    let is_pointer = fs::metadata(path).is_ok_and(|data| data.is_file() && data.len() <= LONGEST_POINTER);
    let name = is_pointer.then(|| fs::read_to_string(path).ok()).flatten();
    let target = name.map(|name| path.with_file_name(name.trim())).filter(|target| target.is_dir());
    target.unwrap_or_else(|| path.to_path_buf())
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    const DELAYED: &str = "activation = 'E4M3'\nscaling = { amax = 'delayed' }\n";

    /// A model with this `[quant]`, with a note beside its final weights.
    fn model(quant: &str, note: Option<&str>) -> SavedModel {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(CONFIG);
        let text =
            format!("[run]\nname = 'a'\n[model]\npreset = 'gpt-tiny'\n[quant]\nweight = 'E4M3'\n{quant}");
        fs::write(&path, text).unwrap();
        let (config, source) = altgrad_config::load(&path, &[]).unwrap();
        let shape = GptShape::new(&config.model, config.data.block_size, 16);
        let layout = Layout::new(&shape);
        let (values, weights) = (Vec::new(), folder.path().join(WEIGHTS));
        SavedModel { config, source, shape, layout, values, weights, note: note.map(str::to_string) }
    }

    #[test]
    fn casts_that_no_file_tells_are_refused() {
        let schedule = "[[quant.schedule]]\nat = 3\nnone = true\n";
        let rounds = |note: Option<&str>| {
            model(schedule, note).config_in_force().map(|config| config.quant.names_a_format())
        };
        let missing = rounds(None).unwrap_err();
        assert!(missing.message.contains("the casts of the weights are unknown"), "{missing}");
        assert!(missing.hint.unwrap().contains("--full-precision"));
        let state = "step = 6\ndata_fingerprint = '0a'\n";
        let switched = format!("{state}[[schedule]]\nentry = 0\nstep = 3\ntrigger = 'at step 3'\n");
        for (note, expected) in
            [(state, Some(true)), (switched.as_str(), Some(false)), (&switched[..50], None)]
        {
            assert_eq!(rounds(Some(note)).ok(), expected, "{note}");
        }
        assert!(rounds(Some(&switched[..50])).unwrap_err().hint.unwrap().contains("checkpoint"));
        let negative = format!("{state}[[history]]\nlayer = 'a'\nrole = 'weight'\namax = [-1.0]\n");
        assert!(rounds(Some(&negative)).unwrap_err().message.contains("which is no magnitude"));
    }

    #[test]
    fn without_a_schedule_the_casts_are_those_of_the_run_file() {
        let model = model(DELAYED, None);
        assert_eq!(model.config_in_force().unwrap(), model.config);
        assert_eq!(model.state(), Ok(None));
    }
}
