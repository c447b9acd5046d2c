//! The files of a run folder, and the ownership of the folder.
//!
//! Training writes them, `compare`, `report` and `sweep` read them. They share this crate, so that readers need neither
//! the engine nor a tensor library. [`folder`] claims a folder, [`events`] is `events.jsonl`, [`record`] is `run.json`,
//! `sweep.json` and the progress lines of `run --progress json`, [`csv_files`] names the files of the csv sink,
//! [`rows`] reads them, [`crash_recovery`] completes the folder of a process that has ended.

#![deny(missing_docs)]
#![forbid(unsafe_code)]

mod claim;
pub mod crash_recovery;
pub mod csv_files;
pub mod events;
pub mod folder;
mod place;
pub mod record;
mod reserve;
pub mod rows;
