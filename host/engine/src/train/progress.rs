//! Listeners to the progress of a run: a terminal, or another program.

use altgrad_run_folder::{folder::RunFolder, record::Progress};

/// Receives a run's progress.
pub trait ProgressListener {
    /// The run has its folder.
    fn claimed(&mut self, _folder: &RunFolder) {}

    /// The folder's `run.json` has the status running.
    fn begun(&mut self) {}

    /// A step is done.
    fn step(&mut self, progress: &Progress);

    /// A message that is always shown.
    fn say(&mut self, text: &str);

    /// A message of lower priority.
    fn mention(&mut self, text: &str);

    /// The steps are over.
    fn finish(&mut self);
}
