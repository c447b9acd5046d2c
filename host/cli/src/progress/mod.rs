//! The progress of `run`: as text on a terminal, or as JSON lines for other programs.

mod json;
mod terminal;

pub(super) use json::JsonProgress;
pub(super) use terminal::TerminalProgress;
