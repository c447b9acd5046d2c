//! {{ id }}: a sink for altgrad, which receives metrics.
//!
//! This example writes `{{ name }}.txt` into the run folder: one line per step, `step name=value name=value ...`. A
//! sink has a thread of its own: it may wait for a disk or a server while training continues.

use std::{
    fmt::Write as _,
    fs::{self, File, OpenOptions},
    io::{Seek, SeekFrom, Write as _},
    path::Path,
};

use altgrad_plugin_api::{
    Config, Descriptor, ErrorKind, Metric, PluginError, RunInfo, RunOutcome, Sink,
};

/// The name in run files.
const NAME: &str = "{{ id }}";
/// The file in the run folder.
const FILE: &str = "{{ name }}.txt";

/// The sink. It has a file between [`Sink::open`] and [`Sink::finish`].
#[derive(Debug)]
pub struct MySink {
    file: Option<File>,
}

impl MySink {
    fn file(&mut self) -> Result<&mut File, PluginError> {
        let closed = || PluginError::new(ErrorKind::OTHER, "the sink is not open");
        self.file.as_mut().ok_or_else(closed)
    }
}

/// Bytes of the lines of steps before `resume_step`. The last line of a killed run may be incomplete: it does not
/// count.
fn kept(text: &[u8], resume_step: u64) -> u64 {
    let is_before = |line: &&[u8]| {
        let step = line.split(|byte| *byte == b' ').next().unwrap_or_default();
        let step = std::str::from_utf8(step)
            .ok()
            .and_then(|step| step.parse::<u64>().ok());
        line.ends_with(b"\n") && step.is_some_and(|step| step < resume_step)
    };
    let lines = text
        .split_inclusive(|byte| *byte == b'\n')
        .take_while(is_before);
    lines.map(|line| line.len() as u64).sum()
}

impl Sink for MySink {
    /// Name, version, and a line for `plugins list`. Options are declared here too.
    const DESCRIPTOR: Descriptor =
        Descriptor::sink(NAME, env!("CARGO_PKG_VERSION"), "A line of text a step");

    /// The host has checked the options against the descriptor; this sink has none. No file is touched yet.
    fn new(_: &Config) -> Result<Self, PluginError> {
        Ok(Self { file: None })
    }

    /// A run starts or resumes. Rows from `resume_step` on are then repeated, so delete those that exist.
    fn open(&mut self, run: &RunInfo<'_>) -> Result<(), PluginError> {
        let path = Path::new(run.folder.as_str()).join(FILE);
        let mut file = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(false)
            .open(&path)?;
        let length = match run.resume_step.into_option() {
            Some(resume_step) => kept(&fs::read(&path)?, resume_step),
            None => 0,
        };
        file.set_len(length)?;
        file.seek(SeekFrom::End(0))?;
        self.file = Some(file);
        Ok(())
    }

    /// One row, in one write: if the process is killed now, the row is there.
    fn log(&mut self, step: u64, metrics: &[Metric<'_>]) -> Result<(), PluginError> {
        let mut line = step.to_string();
        for metric in metrics {
            // A name may contain any character, line breaks included: `escape_debug` keeps it on the line.
            let name = metric.name.name.as_str().escape_debug();
            let _ = write!(line, " {name}={}", metric.value);
        }
        line.push('\n');
        Ok(self.file()?.write_all(line.as_bytes())?)
    }

    /// A checkpoint is about to be written: earlier rows must be on the disk.
    fn state(&mut self) -> Result<Vec<u8>, PluginError> {
        self.file()?.sync_data()?;
        Ok(Vec::new())
    }

    /// The run is over.
    fn finish(&mut self, _: RunOutcome) -> Result<(), PluginError> {
        self.file = None;
        Ok(())
    }
}

// The one line that makes this crate a plugin library.
altgrad_plugin_api::export_plugin!(sink MySink);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_resumed_run_keeps_the_whole_lines_of_earlier_steps() {
        let text = b"0 loss=3\n1 loss=2\n2 lo";
        assert_eq!(kept(text, 0), 0);
        assert_eq!(kept(text, 1), 9);
        assert_eq!(kept(text, 5), 18);
    }
}
