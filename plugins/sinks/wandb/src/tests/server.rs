//! A strict server on the loopback: it writes down every broken rule of the protocol, and breaks the network on demand.

use std::{
    collections::{BTreeMap, VecDeque},
    io::{BufRead, BufReader, Read, Write},
    net::{TcpListener, TcpStream},
    sync::{Arc, Mutex, MutexGuard},
    thread,
    time::Duration,
};

use serde_json::{Map, Value, json};

use super::KEY;
use crate::json;

/// The fault of a request.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Fault {
    /// The connection breaks before anything is done.
    Drop,
    /// All is done, and the connection breaks before the answer.
    DropAfter,
    /// No answer, for long.
    Hang,
    /// The answer comes late.
    Slow,
    /// Half an answer.
    Truncate,
    /// An answer that is not JSON.
    BadJson,
    /// A status, and a header if not empty.
    Status(u16, &'static str),
    /// A GraphQL error.
    Errors,
}

/// A run on the server.
#[derive(Debug, Default, Clone)]
pub(super) struct Run {
    pub history: Vec<String>,
    pub summary: String,
    pub variables: Map<String, Value>,
    pub alerts: Vec<Value>,
    pub exits: Vec<i64>,
    pub complete: bool,
    pub heartbeats: u64,
}

/// The state of the server.
#[derive(Debug, Default)]
pub(super) struct State {
    pub runs: BTreeMap<String, Run>,
    pub violations: Vec<String>,
    /// Coming faults: `graphql`, `fs` or an operation, and their number.
    pub faults: VecDeque<(&'static str, Fault, u32)>,
    pub requests: u64,
    /// Requests a stop.
    pub stopped: bool,
    /// True if rows cannot be taken back.
    pub no_rewind: bool,
}

/// The server: threads that end with the process.
#[derive(Clone)]
pub(super) struct Server {
    pub url: String,
    state: Arc<Mutex<State>>,
}

impl Server {
    pub(super) fn start() -> Self {
        Self::start_at("127.0.0.1:0")
    }

    pub(super) fn start_at(place: &str) -> Self {
        let listener = TcpListener::bind(place).unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let server = Self { url, state: Arc::default() };
        let state = server.state.clone();
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let state = state.clone();
                thread::spawn(move || while serve(&stream, &state).is_some() {});
            }
        });
        server
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    pub(super) fn fault(&self, target: &'static str, fault: Fault, count: u32) {
        self.state().faults.push_back((target, fault, count));
    }

    /// The only run; no rule was broken.
    pub(super) fn run(&self) -> Run {
        let state = self.state();
        assert_eq!(state.violations, Vec::<String>::new());
        assert_eq!(state.runs.len(), 1, "{:?}", state.runs.keys());
        state.runs.values().next().unwrap().clone()
    }
}

/// One request of a connection; None when it is over.
fn serve(stream: &TcpStream, state: &Mutex<State>) -> Option<()> {
    let (path, headers, body) = request(stream)?;
    let parsed: Value = serde_json::from_slice(&body).unwrap_or(Value::Null);
    let operation = parsed["operationName"].as_str().unwrap_or("fs").to_string();
    let mut guard = state.lock().unwrap();
    guard.requests += 1;
    let fault = take_fault(&mut guard, &operation);
    match &fault {
        Some(Fault::Drop) => return None,
        Some(Fault::Hang) => {
            drop(guard);
            thread::sleep(Duration::from_secs(60));
            return None;
        }
        Some(Fault::Slow) => {
            drop(guard);
            thread::sleep(Duration::from_millis(300));
            guard = state.lock().unwrap();
        }
        Some(Fault::Status(status, header)) => {
            // A server that repeats the key: it must not get into messages.
            return answer(stream, *status, header, &format!("{{\"error\":\"{KEY}\"}}"), false);
        }
        Some(Fault::Errors) => {
            return answer(stream, 200, "", r#"{"errors":[{"message":"no"}],"data":null}"#, false);
        }
        _ => {}
    }
    if headers.get("content-type").is_none_or(|kind| kind != "application/json") {
        guard.violations.push("content type".into());
    }
    let authorised = headers.get("authorization").is_some_and(|given| *given == authorization());
    let result = match path.as_str() {
        _ if !authorised => Err(401),
        "/graphql" => graphql(&mut guard, &operation, &parsed).map(|data| json!({ "data": data })),
        _ => file_stream(&mut guard, &path, &parsed),
    };
    drop(guard);
    match (fault, result) {
        (Some(Fault::DropAfter), _) => None,
        (Some(Fault::BadJson), _) => answer(stream, 200, "", "<html>proxy</html>", false),
        (fault, Ok(value)) => answer(stream, 200, "", &value.to_string(), fault == Some(Fault::Truncate)),
        (_, Err(status)) => answer(stream, status, "", "{\"error\":\"refused\"}", false),
    }
}

fn take_fault(state: &mut State, operation: &str) -> Option<Fault> {
    let target = if operation == "fs" { "fs" } else { "graphql" };
    let place = state.faults.iter().position(|(at, _, _)| *at == target || *at == operation)?;
    let (_, fault, count) = &mut state.faults[place];
    let fault = fault.clone();
    *count -= 1;
    if *count == 0 {
        state.faults.remove(place);
    }
    Some(fault)
}

/// `Basic`, written out: a test must not trust the code it tests.
fn authorization() -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let text = format!("api:{KEY}");
    let mut coded = String::from("Basic ");
    for part in text.as_bytes().chunks(3) {
        let bits =
            part.iter().fold(0u32, |bits, &byte| bits << 8 | u32::from(byte)) << (8 * (3 - part.len()));
        for place in 0..4 {
            let letter = LETTERS[(bits >> (18 - 6 * place)) as usize % 64];
            coded.push(if place > part.len() { '=' } else { char::from(letter) });
        }
    }
    coded
}

type Request = (String, BTreeMap<String, String>, Vec<u8>);

fn request(stream: &TcpStream) -> Option<Request> {
    let mut reader = BufReader::new(stream);
    let mut line = String::new();
    reader.read_line(&mut line).ok().filter(|&read| read > 0)?;
    let path = line.split(' ').nth(1)?.to_string();
    let mut headers = BTreeMap::new();
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).ok()?;
        let Some((name, value)) = line.trim().split_once(": ") else { break };
        headers.insert(name.to_lowercase(), value.to_string());
    }
    let mut body = vec![0; headers.get("content-length")?.parse().ok()?];
    reader.read_exact(&mut body).ok()?;
    Some((path, headers, body))
}

fn answer(mut stream: &TcpStream, status: u16, header: &str, body: &str, cut: bool) -> Option<()> {
    let header = if header.is_empty() { String::new() } else { format!("{header}\r\n") };
    let head = format!("HTTP/1.1 {status} x\r\nContent-Length: {}\r\n{header}\r\n", body.len());
    let sent = if cut { &body[..body.len() / 2] } else { body };
    stream.write_all(format!("{head}{sent}").as_bytes()).ok()?;
    (!cut).then_some(())
}

fn graphql(state: &mut State, operation: &str, body: &Value) -> Result<Value, u16> {
    let (query, variables) = (body["query"].as_str().ok_or(400u16)?, &body["variables"]);
    for name in variables.as_object().ok_or(400u16)?.keys() {
        if !query.contains(&format!("${name}:")) {
            state.violations.push(format!("{operation}: ${name} is not declared"));
        }
    }
    let text = |name: &str| variables[name].as_str().map(str::to_string);
    let id = text("name").or_else(|| text("runName")).ok_or(400u16)?;
    let place = json!({ "id": "p", "name": variables["project"], "entity": { "id": "e", "name": "me" } });
    Ok(match operation {
        "RunResumeStatus" => {
            let bucket = state.runs.get(&id).map(|run| {
                let tail: Vec<&String> = run.history.last().into_iter().collect();
                json!({
                    "historyLineCount": run.history.len(), "historyTail": json!(tail).to_string(),
                    "summaryMetrics": run.summary,
                })
            });
            json!({ "model": { "bucket": bucket } })
        }
        "UpsertBucket" => {
            let config = text("config").and_then(|config| serde_json::from_str::<Value>(&config).ok());
            if config.is_none_or(|config| !config["_wandb"]["value"]["t"].is_object()) {
                state.violations.push("config".into());
            }
            let run = state.runs.entry(id.clone()).or_default();
            // What is null stays as it is.
            let set = variables.as_object().into_iter().flatten().filter(|(_, value)| !value.is_null());
            run.variables.extend(set.map(|(name, value)| (name.clone(), value.clone())));
            run.complete = false;
            json!({ "upsertBucket": { "bucket": { "id": "x", "name": id, "project": place } } })
        }
        "RewindRun" if state.no_rewind => json!({ "rewindRun": null }),
        "RewindRun" => {
            let run = state.runs.get_mut(&id).ok_or(404u16)?;
            let last = variables["metricValue"].as_f64().ok_or(400u16)?;
            run.history.retain(|row| json::number(&json::parse(row).unwrap()["_step"]) <= Some(last));
            json!({ "rewindRun": { "rewoundRun": { "id": "x", "historyLineCount": run.history.len() } } })
        }
        "NotifyScriptableRunAlert" => {
            state.runs.get_mut(&id).ok_or(404u16)?.alerts.push(variables.clone());
            json!({ "notifyScriptableRunAlert": { "success": true } })
        }
        _ => return Err(400),
    })
}

fn file_stream(state: &mut State, path: &str, body: &Value) -> Result<Value, u16> {
    let State { runs, violations, stopped, .. } = state;
    let id = path.strip_prefix("/files/me/").and_then(|rest| rest.split('/').nth(1)).ok_or(404u16)?;
    let Some(run) = runs.get_mut(id) else {
        violations.push("file_stream before UpsertBucket".into());
        return Err(404);
    };
    let history = &body["files"]["wandb-history.jsonl"];
    if body == &json!({}) {
        run.heartbeats += 1;
    }
    if let Some(offset) = history["offset"].as_u64() {
        if offset as usize > run.history.len() {
            violations.push(format!("a gap: offset {offset} of {}", run.history.len()));
            return Err(400);
        }
        for (line, at) in history["content"].as_array().ok_or(400u16)?.iter().zip(offset as usize..) {
            let line = line.as_str().ok_or(400u16)?;
            let step = |row: &str| json::parse(row).and_then(|row| json::number(&row["_step"]));
            match run.history.get(at) {
                Some(known) if known != line => {
                    violations.push(format!("line {at} overwritten: {known} by {line}"))
                }
                Some(_) => {}
                None => {
                    // The same rows once more belong to an earlier, late request.
                    if run.complete {
                        violations.push("rows after the end".into());
                    }
                    if run.history.last().map(|last| step(last)) >= Some(step(line)) {
                        violations.push(format!("steps do not ascend at {line}"));
                    }
                    run.history.push(line.to_string());
                }
            }
        }
    }
    if let Some(summary) = body["files"]["wandb-summary.json"]["content"][0].as_str() {
        if json::parse(summary).is_none() {
            violations.push(format!("summary {summary}"));
        }
        run.summary = summary.to_string();
    }
    if body["complete"] == true {
        run.complete = true;
        run.exits.push(body["exitcode"].as_i64().ok_or(400u16)?);
    }
    Ok(json!({ "exitcode": null, "limits": {}, "stopped": stopped.then_some(true) }))
}
