//! The files of a run folder: who owns the folder, and what readers find in it.
//!
//! Training writes them, `compare`, `report` and `sweep` read them. This crate is their common ground, so that readers
//! need neither the engine nor a tensor library. [`folder`] claims a folder, [`events`] is `events.jsonl`, [`record`] is
//! `run.json` and the progress lines of `run --progress json`.

#![deny(missing_docs)]
#![forbid(unsafe_code)]

pub mod events;
pub mod folder;
pub mod record;
