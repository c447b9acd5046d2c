//! Requests: authentication, time limits, and the failures after which they are repeated.

use std::{
    error::Error,
    sync::{Arc, OnceLock},
    thread,
    time::Duration,
};

use reqwest::{
    StatusCode,
    blocking::{Client as Http, RequestBuilder},
    header::{CONTENT_TYPE, HeaderMap},
};
use serde_json::Value;

use crate::{
    key::{self, Key},
    pace::Pace,
    shared::Shared,
};

/// The time limit of connecting.
const CONNECT: Duration = Duration::from_secs(5);
/// The operation that is repeated after 409, as the official client does: the server is busy with the same run.
const UPSERT_BUCKET: &str = "UpsertBucket";
/// Characters of a server's answer that messages quote.
const QUOTED: usize = 300;

/// The reason why a request failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Failure {
    /// The same may work later.
    Retry {
        /// The pause that the server requests.
        after: Option<Duration>,
        /// True if it is unknown what the server has received.
        unsure: bool,
        why: String,
    },
    /// It will not work.
    Final(String),
}

/// A server and the right to write to it.
pub(crate) struct Client {
    http: Http,
    base_url: String,
    key: Key,
    shared: Arc<Shared>,
    pace: Pace,
}

/// Status, headers and body of an answer.
type Received = (StatusCode, HeaderMap, Vec<u8>);

/// An answer of the server.
pub(crate) struct Answer {
    pub value: Value,
    /// The pause that the server requests.
    pub pause: Option<Duration>,
}

/// Roots of trust: the machine's, or where it has none, Mozilla's.
fn tls() -> Result<rustls::ClientConfig, rustls::Error> {
    let mut roots = rustls::RootCertStore::empty();
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    if roots.is_empty() {
        roots.extend(webpki_roots::TLS_SERVER_ROOTS.iter().cloned());
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder =
        rustls::ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions()?;
    Ok(builder.with_root_certificates(roots).with_no_client_auth())
}

impl Client {
    /// # Errors
    /// TLS cannot be set up.
    pub(crate) fn new(base_url: &str, key: Key, shared: Arc<Shared>, pace: Pace) -> Result<Self, String> {
        let tls = tls().map_err(|error| format!("TLS cannot be set up ({error})"))?;
        let mut http = Http::builder();
        // What is for this machine does not leave it: a proxy would get the key in clear text.
        if key::is_this_machine(key::host(base_url)) {
            http = http.no_proxy();
        }
        let http = http
            .tls_backend_preconfigured(tls)
            .connect_timeout(CONNECT)
            // A key must not follow where a redirection leads.
            .redirect(reqwest::redirect::Policy::none())
            .user_agent(concat!("altgrad-sink-wandb/", env!("CARGO_PKG_VERSION")))
            .build()
            .map_err(|error| format!("HTTP cannot be set up ({})", reasons(&error)))?;
        Ok(Self { http, base_url: base_url.to_string(), key, shared, pace })
    }

    /// Posts JSON to a path of the server.
    ///
    /// # Errors
    /// The connection failed, or status or body are not as expected.
    pub(crate) fn post(&self, path: &str, body: String, limit: Duration) -> Result<Answer, Failure> {
        self.send(path, body, limit, None)
    }

    /// As [`Client::post`]; the status `passing` is a failure that passes.
    fn send(
        &self,
        path: &str,
        body: String,
        limit: Duration,
        passing: Option<StatusCode>,
    ) -> Result<Answer, Failure> {
        let unsure = |why: &str| Failure::Retry {
            after: None,
            unsure: true,
            why: format!("no answer from {} ({})", self.base_url, self.key.scrub(why)),
        };
        let request = self.http.post(format!("{}{path}", self.base_url));
        let request =
            request.basic_auth("api", Some(self.key.reveal())).header(CONTENT_TYPE, "application/json");
        let request = request.body(body).timeout(limit);
        let (status, headers, bytes) = self.receive(request, limit).map_err(|why| unsure(&why))?;
        if !status.is_success() {
            return Err(self.refusal(status, &headers, &bytes, passing));
        }
        let pause = rate_limit(&headers);
        let value = serde_json::from_slice(&bytes).map_err(|_| Failure::Retry {
            after: None,
            unsure: true,
            why: format!("the answer of {} is not JSON: {}", self.base_url, self.quote(&bytes)),
        })?;
        Ok(Answer { value, pause })
    }

    /// Queries the GraphQL endpoint; returns `data`.
    ///
    /// # Errors
    /// As [`Client::post`]; an error inside an answer is final.
    pub(crate) fn graphql(
        &self,
        name: &str,
        query: &str,
        variables: Value,
        limit: Duration,
    ) -> Result<Value, Failure> {
        let body = serde_json::json!({ "operationName": name, "query": query, "variables": variables });
        let passing = (name == UPSERT_BUCKET).then_some(StatusCode::CONFLICT);
        let mut value = self.send("/graphql", body.to_string(), limit, passing)?.value;
        if let Some(errors) = value.get("errors").filter(|errors| !errors.is_null()) {
            let said = errors
                .pointer("/0/message")
                .and_then(Value::as_str)
                .map_or(errors.to_string(), str::to_string);
            return Err(Failure::Final(format!("{name}: {}", self.quote(said.as_bytes()))));
        }
        Ok(value["data"].take())
    }

    /// Waits for the answer to a request. If the run ends meanwhile, less time is left: a request that hangs is then
    /// given up, so that others follow. Its thread ends with its own limit.
    fn receive(&self, request: RequestBuilder, limit: Duration) -> Result<Received, String> {
        let (answer, shared) = (Arc::new(OnceLock::new()), self.shared.clone());
        let slot = answer.clone();
        let send = move || {
            let received = request.send().and_then(|response| {
                let (status, headers) = (response.status(), response.headers().clone());
                // The body of a refusal is for the message only.
                let bytes = match response.bytes() {
                    Err(_) if !status.is_success() => Vec::new(),
                    bytes => bytes?.to_vec(),
                };
                Ok((status, headers, bytes))
            });
            let _ = slot.set(received.map_err(|error| reasons(&error.without_url())));
            shared.tell(|_| {});
        };
        thread::Builder::new().name("wandb-request".into()).spawn(send).map_err(|error| error.to_string())?;
        let done = || answer.get().is_some();
        self.shared.wait(limit, |state| done() || state.finish_by.is_some());
        let finish_by = self.shared.lock().finish_by;
        if let Some(by) = finish_by {
            self.shared.wait(self.pace.limit_before(by).min(limit), |_| done());
        }
        answer.get().cloned().unwrap_or_else(|| Err("it takes too long".into()))
    }

    /// The failure that a status other than success indicates.
    fn refusal(
        &self,
        status: StatusCode,
        headers: &HeaderMap,
        said: &[u8],
        passing: Option<StatusCode>,
    ) -> Failure {
        let after = wanted_pause(headers);
        let why = format!("{} answers {status}: {}", self.base_url, self.quote(said));
        let again = matches!(status, StatusCode::REQUEST_TIMEOUT | StatusCode::TOO_MANY_REQUESTS);
        if again || passing == Some(status) || status.is_server_error() {
            Failure::Retry { after, unsure: false, why }
        } else if status == StatusCode::UNAUTHORIZED {
            Failure::Final(format!("{why} (is the API key one of this server?)"))
        } else {
            Failure::Final(why)
        }
    }

    /// The beginning of a server's answer, on one line and without the key.
    fn quote(&self, said: &[u8]) -> String {
        let said = self.key.scrub(&String::from_utf8_lossy(said));
        said.split_whitespace().collect::<Vec<_>>().join(" ").chars().take(QUOTED).collect()
    }

    /// The server's address.
    pub(crate) fn base_url(&self) -> &str {
        &self.base_url
    }

    /// `text` without the key.
    pub(crate) fn scrub(&self, text: &str) -> String {
        self.key.scrub(text)
    }
}

/// An error with its causes: reqwest's own text names none.
fn reasons(error: &dyn Error) -> String {
    let mut texts = vec![error.to_string()];
    let mut cause = error.source();
    while let Some(error) = cause {
        texts.push(error.to_string());
        cause = error.source();
    }
    texts.join(": ")
}

fn seconds(headers: &HeaderMap, name: &str) -> Option<f64> {
    headers.get(name)?.to_str().ok()?.trim().parse().ok().filter(|seconds: &f64| *seconds >= 0.0)
}

/// The pause that a refusing server requests; an hour at most.
fn wanted_pause(headers: &HeaderMap) -> Option<Duration> {
    let seconds = seconds(headers, "retry-after").or_else(|| seconds(headers, "ratelimit-reset"))?;
    Some(Duration::from_secs_f64(seconds.min(3600.0)))
}

/// The pause that a server requests with the last request of a window.
fn rate_limit(headers: &HeaderMap) -> Option<Duration> {
    (seconds(headers, "ratelimit-remaining")? < 1.0).then(|| wanted_pause(headers)).flatten()
}

/// A part of a path: everything but letters, digits and `-._~` in percent codes.
pub(crate) fn path_part(text: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
    let code = |byte: u8| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") };
    text.bytes().map(code).collect()
}
