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
use altgrad_run_folder::{
    folder::{CONFIG, STATUS, WEIGHTS},
    record::{CastSwitch, RunRecord},
};

use crate::{
    checkpoint::{
        layout::{CHECKPOINTS, LAST, MODEL},
        read,
        state::CheckpointState,
    },
    model::{GptShape, Layout, weights::WeightsFile},
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
                .hint("it has the model's shape and tokenizer, and run.json the casts; name the run's folder or a checkpoint, or copy both"));
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
        let values = file.values(&layout)?;
        Ok(Self { config, source, shape, layout, values, weights })
    }

    /// The state of the checkpoint of these weights: their own, or the one that a run wrote with its final weights.
    /// `None` if it was deleted.
    ///
    /// # Errors
    /// The file, or the record of the run that wrote the final weights, is damaged.
    pub fn state(&self) -> Result<Option<CheckpointState>, Diagnostic> {
        let folder = self.folder();
        if self.weights.file_name().is_some_and(|name| name == MODEL) {
            return Ok(read::state_of(folder)?);
        }
        let last = read::state_of(&followed(&folder.join(CHECKPOINTS).join(LAST)))?;
        let Some(record) = self.record()? else { return Ok(None) };
        Ok(last.filter(|state| state.step == record.steps))
    }

    /// The fingerprint of the tokens that the run of the final weights was trained on, if its record has it.
    ///
    /// # Errors
    /// The record is damaged.
    pub fn data_fingerprint(&self) -> Result<Option<String>, Diagnostic> {
        Ok(self.record()?.and_then(|record| record.data_fingerprint))
    }

    /// The run file with the casts that were in force when the weights were written, if a schedule changed them.
    ///
    /// # Errors
    /// The run file has a schedule, and the file with its changes so far is missing or damaged.
    pub fn config_in_force(&self) -> Result<RunConfig, Diagnostic> {
        let schedule = &self.config.quant.schedule;
        if schedule.is_empty() {
            return Ok(self.config.clone());
        }
        let phase = self.switches()?.last().and_then(|switch| schedule.get(switch.entry));
        Ok(phase.map_or_else(|| self.config.clone(), |phase| config_of(&self.config, phase)))
    }

    /// The changes of the casts before the weights were written.
    fn switches(&self) -> Result<Vec<CastSwitch>, Diagnostic> {
        if let Some(state) = self.state()? {
            return Ok(state.schedule);
        }
        let record = self.record()?.map(|record| record.schedule);
        record.ok_or_else(|| {
            Diagnostic::config(format!(
                "the casts of the weights are unknown: the run file has a schedule, and there is no {STATUS} beside them"
            ))
            .at(self.weights.display())
            .hint("name the run's folder or a checkpoint of it; `--full-precision` needs no casts")
        })
    }

    /// The record of the run that wrote the final weights, if it has one.
    fn record(&self) -> Result<Option<RunRecord>, Diagnostic> {
        RunRecord::read(self.folder())
            .map_err(|damage| damage.hint("name a checkpoint of the run, such as its checkpoints/last"))
    }

    /// The folder of the weights.
    fn folder(&self) -> &Path {
        self.weights.parent().unwrap_or(Path::new(""))
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

    const RUN: &str = "[run]\nname = 'a'\n[model]\npreset = 'gpt-tiny'\n[quant]\nweight = 'E4M3'\n";
    const SCHEDULE: &str = "[[quant.schedule]]\nat = 3\nnone = true\n";

    /// A model whose run file is this, with final weights in a folder.
    fn model(folder: &Path, run_file: &str) -> SavedModel {
        fs::write(folder.join(CONFIG), run_file).unwrap();
        let (config, source) = altgrad_config::load(&folder.join(CONFIG), &[]).unwrap();
        let shape = GptShape::new(&config.model, config.data.block_size, 16);
        let layout = Layout::new(&shape);
        SavedModel { config, source, shape, layout, values: Vec::new(), weights: folder.join(WEIGHTS) }
    }

    #[test]
    fn casts_that_no_file_tells_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let model = model(folder.path(), &format!("{RUN}{SCHEDULE}"));
        let rounds = || model.config_in_force().map(|config| config.quant.names_a_format());
        let missing = rounds().unwrap_err();
        assert!(
            missing.message.contains("no run.json") && missing.hint.unwrap().contains("--full-precision")
        );
        let switched =
            r#"{"status": "completed", "schedule": [{"entry": 0, "step": 3, "trigger": "at step 3"}]}"#;
        for (status, expected) in
            [(r#"{"status": "running"}"#, Some(true)), (switched, Some(false)), (&switched[..50], None)]
        {
            fs::write(folder.path().join(STATUS), status).unwrap();
            assert_eq!(rounds().ok(), expected, "{status}");
        }
        let damaged = rounds().unwrap_err();
        assert!(damaged.hint.unwrap().contains("checkpoints/last"));
        assert!(model.state().is_err());
    }

    #[test]
    fn without_a_schedule_the_casts_are_those_of_the_run_file() {
        let folder = tempfile::tempdir().unwrap();
        let model = model(folder.path(), RUN);
        assert_eq!(model.config_in_force().unwrap(), model.config);
        assert_eq!(model.state(), Ok(None));
    }
}
