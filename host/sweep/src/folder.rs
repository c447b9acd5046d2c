//! The folder of a sweep: run folders, `sweep.json` with their results, and `.sweep` with the sweep's own files: the
//! resolved run file of each run, the output of its processes, and the runs of trials.
//!
//! A run that has begun belongs to the run file it began with; if the matrix asks for another one now, it is refused.

use std::{
    fs::{self, File},
    path::{Path, PathBuf},
};

use altgrad_base::{diagnostic::Diagnostic, files};
use altgrad_config::RunConfig;
use altgrad_run_folder::{
    folder::RunFolder,
    record::{Difference, SWEEP_RESULT, SweepRecord},
};
use toml::Table;

use super::task::Task;
/// The results of the runs.
pub const RESULT: &str = SWEEP_RESULT;
/// The sweep's own things; also the sign that a folder is a sweep's.
const OWN: &str = ".sweep";
/// Keys that may change between two starts of a sweep: its path.
const FREE: [&str; 1] = ["run.out"];
/// The hint for a run of another configuration.
const OTHER_NAME: &str = "set it back, give the sweep another `name`, or delete the folders of these runs";
/// The hint for results that cannot be read.
const DAMAGED: &str = "restore it; or delete it, and give `--threads N` if the runs have other threads than the default: each \
                       run.json has their number under `environment`";

/// The folder of a sweep, perhaps not made yet.
#[derive(Debug)]
pub struct SweepFolder {
    path: PathBuf,
    /// Keeps other sweeps out while it is open.
    lock: Option<File>,
}

impl SweepFolder {
    /// The folder there; writes nothing.
    ///
    /// # Errors
    /// The folder has other content than a sweep.
    pub fn at(path: &Path) -> Result<Self, Diagnostic> {
        if !path.join(OWN).is_dir() {
            RunFolder::check(path).map_err(|error| Diagnostic {
                message: "the sweep's folder holds something else".into(),
                hint: Some("give the sweep another `name`, or use `--out DIR`".into()),
                ..error
            })?;
        }
        Ok(Self { path: path.to_path_buf(), lock: None })
    }

    /// Makes it and keeps other sweeps out.
    ///
    /// # Errors
    /// The folder cannot be made, or another process runs a sweep there.
    pub fn claim(&mut self) -> Result<(), Diagnostic> {
        for folder in [self.runs(), self.logs()] {
            fs::create_dir_all(&folder).map_err(|error| self.failed("make the sweep's folder", &error))?;
        }
        self.lock = altgrad_run_folder::folder::lock(&self.path, "another process is running this sweep")?;
        Ok(())
    }

    /// The results of earlier starts of the sweep, if it has been started.
    ///
    /// # Errors
    /// They cannot be read: their number of threads is unknown, and they would be overwritten.
    pub fn record(&self) -> Result<Option<SweepRecord>, Diagnostic> {
        SweepRecord::read(&self.path).map_err(|error| error.hint(DAMAGED))
    }

    /// The folder of the matrix's runs.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The folder of trials.
    #[must_use]
    pub fn trials(&self) -> PathBuf {
        self.path.join(OWN).join("trials")
    }

    /// The folder for the launcher's files.
    #[must_use]
    pub fn launcher(&self) -> PathBuf {
        self.path.join(OWN).join("slurm")
    }

    fn runs(&self) -> PathBuf {
        self.path.join(OWN).join("runs")
    }

    fn logs(&self) -> PathBuf {
        self.path.join(OWN).join("logs")
    }

    /// The task of a run, up to step `until`.
    #[must_use]
    pub fn task(&self, config: &RunConfig, until: u64) -> Task {
        let name = config.run.name.clone();
        Task {
            config: self.runs().join(format!("{name}.toml")),
            log: self.logs().join(format!("{name}.log")),
            folder: Path::new(&config.run.out).join(&name),
            until,
            steps: config.train.max_steps,
            fork: None,
            device: config.run.device,
            name,
        }
    }

    /// Checks that the run may be done: its folder is free, or holds the beginning of a run with the same run file.
    ///
    /// # Errors
    /// A difference of the run file, or an obstacle in the folder.
    pub fn check(&self, config: &RunConfig) -> Result<(), Diagnostic> {
        let task = self.task(config, 0);
        if !RunFolder::holds_a_run(&task.folder) {
            return RunFolder::check(&task.folder);
        }
        let unknown = |error: Diagnostic| Diagnostic {
            message: format!("the run folder was not made by this sweep: {}", error.message),
            ..error
        };
        let was = altgrad_config::load(&task.config, &[]).map_err(unknown)?.0;
        let found = differences(&was, config)?;
        if found.is_empty() {
            return Ok(());
        }
        let said: Vec<String> = found.iter().map(ToString::to_string).collect();
        let message =
            format!("the run {} was begun with another configuration: {}", task.name, said.join("; "));
        Err(Diagnostic::config(message).at(task.folder.display()).hint(OTHER_NAME))
    }

    /// Writes the run's resolved run file, from which its processes run. Call [`Self::check`] before: the file of a run
    /// that has begun then changes only in the path of a sweep that was moved.
    ///
    /// # Errors
    /// The disk's error.
    pub fn write(&self, config: &RunConfig) -> Result<(), Diagnostic> {
        self.put(&self.task(config, 0).config, config.to_toml()?.as_bytes())
    }

    /// Writes a file: complete or not at all.
    ///
    /// # Errors
    /// The disk's error.
    pub fn put(&self, path: &Path, contents: &[u8]) -> Result<(), Diagnostic> {
        files::write(path, contents)
            .map_err(|error| self.failed(&format!("write {}", path.display()), &error))
    }

    fn failed(&self, what: &str, error: &std::io::Error) -> Diagnostic {
        Diagnostic::run(format!("cannot {what} ({error})"))
            .at(self.path.display())
            .hint("is the disk full, or is the folder deleted or read-only?")
    }
}

fn differences(was: &RunConfig, is: &RunConfig) -> Result<Vec<Difference>, Diagnostic> {
    let table = |config: &RunConfig| {
        toml::from_str::<Table>(&config.to_toml()?)
            .map_err(|error| Diagnostic::run(format!("the resolved run file cannot be read ({error})")))
    };
    let mut found = altgrad_run_folder::record::differences(&table(was)?, &table(is)?);
    found.retain(|difference| !FREE.contains(&difference.key.as_str()));
    Ok(found)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn config(root: &Path) -> RunConfig {
        let mut config = RunConfig::default();
        config.run.name = "a_s1".into();
        config.run.out = root.join("sweep").display().to_string();
        config.train.decay_steps = Some(config.train.max_steps);
        config
    }

    #[test]
    fn a_run_that_has_begun_keeps_its_configuration() {
        let root = tempfile::tempdir().unwrap();
        let mut folder = SweepFolder::at(&root.path().join("sweep")).unwrap();
        folder.claim().unwrap();
        let (first, mut second) = (config(root.path()), config(root.path()));
        second.train.lr = 0.5;
        // Before it begins, the last one counts.
        for config in [&second, &first] {
            folder.check(config).unwrap();
            folder.write(config).unwrap();
        }
        let run = folder.task(&first, 1).folder;
        fs::create_dir(&run).unwrap();
        fs::write(run.join(altgrad_run_folder::folder::STATUS), "").unwrap();
        folder.check(&first).unwrap();
        let refused = folder.check(&second).unwrap_err();
        assert_eq!(
            refused.message,
            "the run a_s1 was begun with another configuration: `train.lr` is 0.5, was 0.001"
        );
        second.run.name = "b_s1".into();
        fs::create_dir(root.path().join("sweep/b_s1")).unwrap();
        fs::write(root.path().join("sweep/b_s1/notes"), "mine").unwrap();
        assert_eq!(folder.check(&second).unwrap_err().message, "the run folder is not empty");
    }

    #[test]
    fn results_that_cannot_be_read_are_refused() {
        let root = tempfile::tempdir().unwrap();
        let folder = SweepFolder::at(root.path()).unwrap();
        assert_eq!(folder.record(), Ok(None));
        fs::write(root.path().join(RESULT), "{\"threads\": 2, \"ru").unwrap();
        let error = folder.record().unwrap_err();
        assert!(error.message.starts_with("the sweep's results cannot be read ("), "{error}");
        assert_eq!(error.hint.as_deref(), Some(DAMAGED));
        fs::write(root.path().join(RESULT), "{\"threads\": 2}").unwrap();
        assert_eq!(folder.record().unwrap().unwrap().threads.map(usize::from), Some(2));
    }

    #[test]
    fn a_run_of_a_moved_sweep_continues_in_its_new_folder() {
        let root = tempfile::tempdir().unwrap();
        let begun = |at: &str| {
            let mut config = config(root.path());
            config.run.out = root.path().join(at).display().to_string();
            config
        };
        let mut folder = SweepFolder::at(&root.path().join("sweep")).unwrap();
        folder.claim().unwrap();
        folder.write(&begun("sweep")).unwrap();
        let run = folder.task(&begun("sweep"), 1).folder;
        fs::create_dir(&run).unwrap();
        fs::write(run.join(altgrad_run_folder::folder::STATUS), "").unwrap();
        drop(folder);
        fs::rename(root.path().join("sweep"), root.path().join("moved")).unwrap();
        let folder = SweepFolder::at(&root.path().join("moved")).unwrap();
        let config = begun("moved");
        folder.check(&config).unwrap();
        folder.write(&config).unwrap();
        let read = altgrad_config::load(&folder.task(&config, 1).config, &[]).unwrap().0;
        assert_eq!(read.run.out, config.run.out);
    }

    #[test]
    fn a_folder_is_swept_by_one_process_and_others_folders_are_left_alone() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("sweep");
        let mut first = SweepFolder::at(&path).unwrap();
        first.claim().unwrap();
        let mut second = SweepFolder::at(&path).unwrap();
        assert_eq!(second.claim().unwrap_err().message, "another process is running this sweep");
        drop(first);
        second.claim().unwrap();
        fs::write(root.path().join("notes"), "mine").unwrap();
        assert_eq!(
            SweepFolder::at(root.path()).unwrap_err().message,
            "the sweep's folder holds something else"
        );
    }
}
