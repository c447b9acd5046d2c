//! The server's questions and answers as types: GraphQL operations, file_stream bodies.

use std::time::Duration;

use serde_json::{Value, json};

use crate::{
    client::{Client, Failure, path_part},
    index::{Begin, SpooledAlert},
    json,
};

const STATUS: &str = "query RunResumeStatus($project: String, $entity: String, $name: String!) { \
    model(name: $project, entityName: $entity) { id name entity { id name } \
    bucket(name: $name, missingOk: true) { id name displayName summaryMetrics config logLineCount historyLineCount \
    eventsLineCount historyTail eventsTail tags notes wandbConfig(keys: [\"t\"]) } } }";
const UPSERT: &str = "mutation UpsertBucket($name: String, $project: String, $entity: String, $displayName: String, \
    $groupName: String, $jobType: String, $notes: String, $tags: [String!], $host: String, $program: String, \
    $config: JSONString) { upsertBucket(input: { name: $name, modelName: $project, entityName: $entity, \
    displayName: $displayName, groupName: $groupName, jobType: $jobType, notes: $notes, tags: $tags, host: $host, \
    jobProgram: $program, config: $config }) { bucket { id name displayName historyLineCount \
    project { id name entity { id name } } } inserted } }";
const REWIND: &str = "mutation RewindRun($runName: String!, $entity: String, $project: String, $metricName: String!, \
    $metricValue: Float!) { rewindRun(input: { runName: $runName, entityName: $entity, projectName: $project, \
    metricName: $metricName, metricValue: $metricValue }) { rewoundRun { id name historyLineCount } } }";
const ALERT: &str = "mutation NotifyScriptableRunAlert($entityName: String!, $projectName: String!, $runName: String!, \
    $title: String!, $text: String!, $severity: AlertSeverity = INFO, $waitDuration: Duration) { \
    notifyScriptableRunAlert(input: { entityName: $entityName, projectName: $projectName, runName: $runName, \
    title: $title, text: $text, severity: $severity, waitDuration: $waitDuration }) { success } }";

/// File of the rows on the server.
const HISTORY: &str = "wandb-history.jsonl";
/// File of the summary on the server.
const SUMMARY: &str = "wandb-summary.json";

/// The server's state of a run.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct ServerRun {
    /// Lines of history.
    pub lines: u64,
    /// The last of them.
    pub tail: Option<String>,
    /// The summary, an object without blanks.
    pub summary: Option<String>,
}

impl ServerRun {
    /// `_step` of the last row.
    pub(crate) fn last_step(&self) -> Option<u64> {
        self.of_tail("_step").map(|step| step as u64)
    }

    /// `_runtime` of the last row, seconds.
    pub(crate) fn runtime(&self) -> Option<f64> {
        self.of_tail("_runtime")
    }

    fn of_tail(&self, name: &str) -> Option<f64> {
        json::number(json::parse(self.tail.as_deref()?)?.get(name)?)
    }
}

/// The server and the run on it.
pub(crate) struct Wire {
    pub client: Client,
    pub run_id: String,
    pub entity: Option<String>,
    pub project: String,
    /// Longest a request may take.
    pub limit: Duration,
}

/// An answer that lacks a required field.
fn incomplete(operation: &str) -> Failure {
    Failure::Retry {
        after: None,
        unsure: true,
        why: format!("the server's answer to {operation} is incomplete"),
    }
}

impl Wire {
    /// The server's state of the run; None if it has no such run.
    pub(crate) fn status(&self) -> Result<Option<ServerRun>, Failure> {
        let variables = json!({ "project": self.project, "entity": self.entity, "name": self.run_id });
        let data = self.client.graphql("RunResumeStatus", STATUS, variables, self.limit)?;
        let Some(bucket) = data.pointer("/model/bucket").filter(|bucket| !bucket.is_null()) else {
            return Ok(None);
        };
        let lines = bucket["historyLineCount"].as_u64().ok_or_else(|| incomplete("RunResumeStatus"))?;
        let tail = bucket["historyTail"].as_str().and_then(json::parse);
        // A list of rows, each as text.
        let tail = tail.and_then(|tail| Some(tail.as_array()?.last()?.as_str()?.to_string()));
        let summary = bucket["summaryMetrics"].as_str().map(json::compact);
        Ok(Some(ServerRun { lines, tail, summary }))
    }

    /// Makes the run, or opens it again, in which case the server keeps what the user has not set here. From here on
    /// entity and project are as the server spells them.
    pub(crate) fn upsert(&mut self, begin: &Begin, exists: bool) -> Result<(), Failure> {
        let identity = &begin.identity;
        let name = identity.display_name.as_ref().or((!exists).then_some(&begin.name));
        let tags = (!identity.tags.is_empty()).then_some(&identity.tags);
        let mut config = json!({ "_wandb": { "value": { "t": {}, "m": [] } } });
        for (key, value) in begin.config.as_object().into_iter().flatten() {
            config[key] = json!({ "value": value });
        }
        let variables = json!({
            "name": self.run_id, "project": self.project, "entity": self.entity,
            "displayName": name,
            "groupName": identity.group, "jobType": identity.job_type, "notes": identity.notes,
            "tags": tags, "host": begin.host, "program": "altgrad-host",
            "config": self.client.scrub(&config.to_string()),
        });
        let data = self.client.graphql("UpsertBucket", UPSERT, variables, self.limit)?;
        let project =
            data.pointer("/upsertBucket/bucket/project").ok_or_else(|| incomplete("UpsertBucket"))?;
        let text = |pointer: &str| project.pointer(pointer).and_then(Value::as_str).map(str::to_string);
        self.project = text("/name").ok_or_else(|| incomplete("UpsertBucket"))?;
        self.entity = Some(text("/entity/name").ok_or_else(|| incomplete("UpsertBucket"))?);
        Ok(())
    }

    /// The address of the run's page.
    pub(crate) fn page(&self) -> String {
        let entity = path_part(self.entity.as_deref().unwrap_or_default());
        let (project, run) = (path_part(&self.project), path_part(&self.run_id));
        format!("{}/{entity}/{project}/runs/{run}", self.client.base_url().replacen("://api.", "://", 1))
    }

    /// Deletes the server's rows after a step.
    pub(crate) fn rewind(&self, last_step: i64) -> Result<(), Failure> {
        let variables = json!({
            "runName": self.run_id, "entity": self.entity, "project": self.project,
            "metricName": "_step", "metricValue": last_step,
        });
        let data = self.client.graphql("RewindRun", REWIND, variables, self.limit)?;
        match data.pointer("/rewindRun/rewoundRun") {
            Some(run) if !run.is_null() => Ok(()),
            _ => Err(Failure::Final("RewindRun: the server did not rewind the run".into())),
        }
    }

    /// Sends an alert.
    pub(crate) fn alert(&self, alert: &SpooledAlert) -> Result<(), Failure> {
        let variables = json!({
            "entityName": self.entity, "projectName": self.project, "runName": self.run_id,
            "title": self.client.scrub(&alert.title), "text": self.client.scrub(&alert.text),
            "severity": alert.severity, "waitDuration": alert.wait_ms,
        });
        self.client.graphql("NotifyScriptableRunAlert", ALERT, variables, self.limit).map(drop)
    }

    /// Sends a body of the file stream. Returns whether a stop was requested, and the pause that the server
    /// asks for.
    pub(crate) fn stream(&self, body: &Value) -> Result<(bool, Option<Duration>), Failure> {
        let entity = path_part(self.entity.as_deref().unwrap_or_default());
        let (project, run) = (path_part(&self.project), path_part(&self.run_id));
        let path = format!("/files/{entity}/{project}/{run}/file_stream");
        let answer = self.client.post(&path, body.to_string(), self.limit)?;
        Ok((answer.value["stopped"].as_bool().unwrap_or(false), answer.pause))
    }
}

/// Rows from a line of the server's history on, with the whole summary.
pub(crate) fn rows_body(offset: u64, rows: &[String], summary: &str) -> Value {
    json!({ "files": {
        HISTORY: { "offset": offset, "content": rows },
        SUMMARY: { "offset": 0, "content": [summary] },
    } })
}

/// The end of a run, with the whole summary.
pub(crate) fn end_body(exit_code: i32, summary: &str) -> Value {
    json!({ "files": { SUMMARY: { "offset": 0, "content": [summary] } }, "complete": true, "exitcode": exit_code })
}
