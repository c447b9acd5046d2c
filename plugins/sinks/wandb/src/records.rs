//! Records of a `.wandb` file: the fields of the official client's protocol buffers that this sink fills in.
//!
//! Field numbers are the official ones; omitted fields are absent in the message, which proto3 allows.

use prost::{Message, Oneof};

/// A record: its number, from 1, and one of the kinds.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct Record {
    #[prost(int64, tag = "1")]
    pub num: i64,
    #[prost(oneof = "Content", tags = "2, 3, 10, 17, 18, 21")]
    pub content: Option<Content>,
}

/// The content of a record.
#[derive(Clone, PartialEq, Oneof)]
pub(crate) enum Content {
    #[prost(message, tag = "2")]
    History(History),
    #[prost(message, tag = "3")]
    Summary(Update),
    #[prost(message, tag = "10")]
    Alert(Alert),
    #[prost(message, tag = "17")]
    Run(Run),
    #[prost(message, tag = "18")]
    Exit(Exit),
    #[prost(message, tag = "21")]
    Header(Header),
}

/// A name and its value as JSON: an item of history, summary and config.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct Item {
    #[prost(string, repeated, tag = "2")]
    pub nested_key: Vec<String>,
    #[prost(string, tag = "16")]
    pub value_json: String,
}

/// New values of the summary or the config.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct Update {
    #[prost(message, repeated, tag = "1")]
    pub update: Vec<Item>,
}

/// A row.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct History {
    #[prost(message, repeated, tag = "1")]
    pub item: Vec<Item>,
    #[prost(message, optional, tag = "2")]
    pub step: Option<Step>,
}

/// A row's step.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct Step {
    #[prost(int64, tag = "1")]
    pub num: i64,
}

/// An alert.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct Alert {
    #[prost(string, tag = "1")]
    pub title: String,
    #[prost(string, tag = "2")]
    pub text: String,
    #[prost(string, tag = "3")]
    pub level: String,
    /// Milliseconds.
    #[prost(int64, tag = "4")]
    pub wait_duration: i64,
}

/// The run.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct Run {
    #[prost(string, tag = "1")]
    pub run_id: String,
    #[prost(string, tag = "2")]
    pub entity: String,
    #[prost(string, tag = "3")]
    pub project: String,
    #[prost(message, optional, tag = "4")]
    pub config: Option<Update>,
    #[prost(string, tag = "6")]
    pub run_group: String,
    #[prost(string, tag = "7")]
    pub job_type: String,
    #[prost(string, tag = "8")]
    pub display_name: String,
    #[prost(string, tag = "9")]
    pub notes: String,
    #[prost(string, repeated, tag = "10")]
    pub tags: Vec<String>,
    #[prost(string, tag = "13")]
    pub host: String,
    #[prost(message, optional, tag = "17")]
    pub start_time: Option<Time>,
}

/// Time since 1970.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct Time {
    #[prost(int64, tag = "1")]
    pub seconds: i64,
    #[prost(int32, tag = "2")]
    pub nanos: i32,
}

/// The end of the run.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct Exit {
    #[prost(int32, tag = "1")]
    pub exit_code: i32,
    /// Seconds.
    #[prost(int32, tag = "2")]
    pub runtime: i32,
}

/// Who wrote the file.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct Header {
    #[prost(message, optional, tag = "1")]
    pub version_info: Option<Version>,
}

/// Who wrote the file.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct Version {
    #[prost(string, tag = "1")]
    pub producer: String,
}
