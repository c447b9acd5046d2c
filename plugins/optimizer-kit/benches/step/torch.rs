//! PyTorch's fused AdamW in a separate process, which runs a step on request.

use std::{
    io::{BufRead, BufReader, Error, Write},
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
    time::Duration,
};

/// A Python that waits.
pub struct Torch {
    child: Child,
    ask: ChildStdin,
    answers: BufReader<ChildStdout>,
    /// PyTorch's.
    pub version: String,
}

impl Torch {
    /// Starts it; `None`, with its reason on stderr, if that Python has no torch.
    pub fn start(python: &str, elements: usize, threads: usize) -> Result<Option<Self>, Error> {
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/benches/step/torch_adamw.py");
        let mut child = Command::new(python)
            .args([script.to_string(), elements.to_string(), threads.to_string()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let (Some(ask), Some(answers)) = (child.stdin.take(), child.stdout.take()) else { return Ok(None) };
        let mut torch = Self { child, ask, answers: BufReader::new(answers), version: String::new() };
        torch.version = torch.answer()?;
        Ok((!torch.version.is_empty()).then_some(torch))
    }

    fn answer(&mut self) -> Result<String, Error> {
        let mut line = String::new();
        self.answers.read_line(&mut line)?;
        Ok(line.trim().to_string())
    }

    /// The time of one step there; `None` if the process is gone.
    pub fn step(&mut self) -> Option<Duration> {
        self.ask.write_all(b"step\n").ok()?;
        self.answer().ok()?.parse().ok().map(Duration::from_secs_f64)
    }
}

impl Drop for Torch {
    fn drop(&mut self) {
        // Already gone is as good.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
