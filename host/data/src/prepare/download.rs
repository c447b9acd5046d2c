//! Fetching a published archive: resumed, retried, and checked, from the first address that works.
//!
//! Received bytes stay in `FILE.part`, so that the next attempt, in this run or a later one, resumes there. The file
//! gets its name once length and SHA-256 are right. Proxies are those of the environment (`HTTPS_PROXY`, `NO_PROXY` and
//! so on).

use std::{
    env,
    fs::{self, File, OpenOptions},
    io::{self, Read, Write},
    path::{Path, PathBuf},
    thread,
    time::Duration,
};

use altgrad_base::diagnostic::Diagnostic;
use reqwest::{
    StatusCode,
    blocking::{Client, Response},
    header::{ACCEPT_ENCODING, CONTENT_RANGE, RANGE, RETRY_AFTER},
};

use super::{input, progress::PrepareProgress, sources::Archive};
/// The limits of retrying.
#[derive(Debug, Clone, Copy)]
pub struct Patience {
    /// Consecutive attempts without a new byte.
    pub attempts: u32,
    /// The wait after the first of them; doubled each time.
    pub wait: Duration,
    /// The longest wait, even if a server requests a longer one.
    pub longest_wait: Duration,
    /// The longest time without a byte on a connection.
    pub silence: Duration,
}

impl Patience {
    /// For servers far away.
    pub const USUAL: Self = Self {
        attempts: 5,
        wait: Duration::from_millis(500),
        longest_wait: Duration::from_secs(60),
        silence: Duration::from_secs(60),
    };
}

/// Fetches an archive into a folder and returns its path; one that is there and right is not fetched again.
/// `mirror`: the URL of a folder that holds it, tried first.
///
/// # Errors
/// No address serves the right file.
pub fn fetch(
    archive: &Archive,
    folder: &Path,
    mirror: Option<&str>,
    progress: &dyn PrepareProgress,
) -> Result<PathBuf, Diagnostic> {
    let urls = addresses(archive, mirror, |name| env::var(name).ok().filter(|value| !value.is_empty()));
    fetch_from(&urls, archive, folder, Patience::USUAL, progress)
}

/// The addresses of an archive, in the order of trying: requested mirrors, the publisher, the hub.
pub(super) fn addresses(
    archive: &Archive,
    mirror: Option<&str>,
    env: impl Fn(&str) -> Option<String>,
) -> Vec<String> {
    let below = |folder: &str, path: &str| format!("{}/{path}", folder.trim_end_matches('/'));
    let asked = mirror.map(String::from).into_iter().chain(env("ALTGRAD_DATA_MIRROR"));
    let mut urls: Vec<String> = asked.map(|folder| below(&folder, archive.file)).collect();
    let endpoint = env("HF_ENDPOINT");
    let hub = archive.hub.map(|path| below(endpoint.as_deref().unwrap_or("https://huggingface.co"), path));
    let publisher = Some(archive.url.to_string());
    // Try a user-set endpoint first.
    urls.extend(if endpoint.is_some() { [hub, publisher] } else { [publisher, hub] }.into_iter().flatten());
    urls
}

/// The same from given addresses.
///
/// # Errors
/// As [`fetch`].
pub fn fetch_from(
    urls: &[String],
    archive: &Archive,
    folder: &Path,
    patience: Patience,
    progress: &dyn PrepareProgress,
) -> Result<PathBuf, Diagnostic> {
    let disk = |error: io::Error| {
        Diagnostic::run(format!("the download cannot be written ({error})")).at(folder.display())
    };
    fs::create_dir_all(folder).map_err(disk)?;
    let (whole, part) = (folder.join(archive.file), folder.join(format!("{}.part", archive.file)));
    if is_right(archive, &whole) {
        return Ok(whole);
    }
    let mut failures = Vec::new();
    for url in urls {
        let client = client(url, patience)?;
        let download = Download { client, archive, part: &part, patience, progress };
        match download.fetch(url) {
            Ok(()) => {
                fs::rename(&part, &whole).map_err(disk)?;
                return Ok(whole);
            }
            Err(Failure::Disk(error)) => return Err(disk(error)),
            Err(Failure::Server(why)) => failures.push(format!("{url}: {why}")),
        }
    }
    // Only if nothing arrived.
    fs::remove_dir(folder).ok();
    Err(Diagnostic::run(format!("{} cannot be downloaded", archive.file))
        .at(failures.join("\n      "))
        .hint(format!(
            "what arrived is kept: run it again to go on. Without a connection, fetch it elsewhere ({}, {} bytes, sha256 {}) \
             and name it: --input {}. A mirror's folder can be given by --mirror URL; proxies by HTTPS_PROXY",
            archive.url, archive.bytes, archive.sha256, archive.file
        )))
}

/// A client for an address; proxies are not for this machine itself.
fn client(url: &str, patience: Patience) -> Result<Client, Diagnostic> {
    // An error means that there is a provider already.
    rustls::crypto::ring::default_provider().install_default().ok();
    let builder = Client::builder()
        .user_agent(concat!("altgrad-host/", env!("CARGO_PKG_VERSION")))
        .connect_timeout(patience.silence)
        // Of each read, not of the whole.
        .timeout(patience.silence);
    let host = url.split("//").nth(1).unwrap_or(url);
    let local = ["localhost", "127.", "[::1]"].iter().any(|name| host.starts_with(name));
    let builder = if local { builder.no_proxy() } else { builder };
    builder.build().map_err(|error| Diagnostic::run(format!("no connection can be made ({})", chain(&error))))
}

struct Download<'a> {
    client: Client,
    archive: &'a Archive,
    part: &'a Path,
    patience: Patience,
    progress: &'a dyn PrepareProgress,
}

/// The reason why an address fails.
enum Failure {
    /// It does not have the file.
    Server(String),
    /// The file cannot be kept.
    Disk(io::Error),
}

/// The result of one request.
enum Attempt {
    /// The connection ended; more may come.
    Ended(String),
    /// Come back later.
    Later(String, Option<Duration>),
    /// This address will not do.
    Refused(String),
}

impl Download<'_> {
    /// Completes the part from one address.
    fn fetch(&self, url: &str) -> Result<(), Failure> {
        let resumed = self.have() > 0;
        self.complete(url)?;
        if is_right(self.archive, self.part) {
            return Ok(());
        }
        fs::remove_file(self.part).map_err(Failure::Disk)?;
        if resumed {
            // The kept bytes may belong to another file.
            self.complete(url)?;
            if is_right(self.archive, self.part) {
                return Ok(());
            }
            fs::remove_file(self.part).map_err(Failure::Disk)?;
        }
        Err(Failure::Server("what it serves has another SHA-256 than the published file".into()))
    }

    fn complete(&self, url: &str) -> Result<(), Failure> {
        let (mut failed, mut best) = (0, self.have());
        while self.have() != self.archive.bytes {
            let attempt = self.attempt(url).map_err(Failure::Disk)?;
            let more = self.have() > best;
            best = best.max(self.have());
            let (why, asked) = match attempt {
                None => continue,
                Some(Attempt::Refused(why)) => return Err(Failure::Server(why)),
                Some(Attempt::Ended(why)) => (why, None),
                Some(Attempt::Later(why, wait)) => (why, wait),
            };
            // Consecutive attempts without a new byte.
            failed = if more { 0 } else { failed + 1 };
            if failed >= self.patience.attempts {
                return Err(Failure::Server(why));
            }
            let usual = self.patience.wait * 2u32.pow(failed.saturating_sub(1).min(16));
            let wait = asked.unwrap_or(usual).min(self.patience.longest_wait);
            self.progress.say(&format!("{url}: {why}; again in {:.1} s", wait.as_secs_f64()));
            thread::sleep(wait);
        }
        Ok(())
    }

    /// One request; `None` if the part is complete.
    fn attempt(&self, url: &str) -> io::Result<Option<Attempt>> {
        let have = self.have();
        // An encoding would change the bytes.
        let mut request = self.client.get(url).header(ACCEPT_ENCODING, "identity");
        if have > 0 {
            request = request.header(RANGE, format!("bytes={have}-"));
        }
        let response = match request.send() {
            Ok(response) => response,
            Err(error) if error.is_builder() || error.is_redirect() => {
                return Ok(Some(Attempt::Refused(chain(&error))));
            }
            Err(error) => return Ok(Some(Attempt::Ended(chain(&error)))),
        };
        let status = response.status();
        let (from, total) = match status {
            StatusCode::PARTIAL_CONTENT => match content_range(&response) {
                Some((from, total)) if from == have => (from, total),
                _ => return self.start_over("answers with another range than was asked for"),
            },
            // The range was ignored: the file comes from its beginning.
            StatusCode::OK => (0, response.content_length()),
            StatusCode::RANGE_NOT_SATISFIABLE => return self.start_over("has no such range"),
            _ if status.is_server_error() || matches!(status.as_u16(), 408 | 425 | 429) => {
                return Ok(Some(Attempt::Later(
                    format!("the server answers {status}"),
                    retry_after(&response),
                )));
            }
            _ => return Ok(Some(Attempt::Refused(format!("the server answers {status}")))),
        };
        if let Some(total) = total.filter(|total| *total != self.archive.bytes) {
            let message = format!("its file has {total} bytes, the published one {}", self.archive.bytes);
            return Ok(Some(Attempt::Refused(message)));
        }
        self.receive(response, from)
    }

    /// Deletes the part; the next attempt requests the whole file.
    fn start_over(&self, why: &str) -> io::Result<Option<Attempt>> {
        fs::remove_file(self.part).or_else(|error| match error.kind() {
            io::ErrorKind::NotFound => Ok(()),
            _ => Err(error),
        })?;
        Ok(Some(Attempt::Ended(why.into())))
    }

    /// Appends the body, which begins at `from`, to the part.
    fn receive(&self, mut response: Response, from: u64) -> io::Result<Option<Attempt>> {
        let mut file = OpenOptions::new().create(true).append(true).open(self.part)?;
        file.set_len(from)?;
        let mut have = from;
        let mut buffer = vec![0; 1 << 16];
        loop {
            let read = match response.read(&mut buffer) {
                Ok(0) if have == self.archive.bytes => {
                    file.sync_all()?;
                    return Ok(None);
                }
                Ok(0) => return Ok(Some(Attempt::Ended("the connection ended early".into()))),
                Ok(read) => read,
                Err(error) => {
                    return Ok(Some(Attempt::Ended(format!("the connection broke ({})", chain(&error)))));
                }
            };
            have += read as u64;
            if have > self.archive.bytes {
                file.set_len(0)?;
                return Ok(Some(Attempt::Refused("it serves more bytes than the published file has".into())));
            }
            file.write_all(&buffer[..read])?;
            self.progress.at("downloading", have, Some(self.archive.bytes));
        }
    }

    /// Bytes kept; a part that is too long is of no use.
    fn have(&self) -> u64 {
        let have = fs::metadata(self.part).map_or(0, |found| found.len());
        if have <= self.archive.bytes {
            return have;
        }
        File::create(self.part).ok();
        0
    }
}

fn is_right(archive: &Archive, path: &Path) -> bool {
    let right_length = fs::metadata(path).is_ok_and(|found| found.len() == archive.bytes);
    right_length && input::sha256(path, &mut |_| {}).is_ok_and(|sha256| sha256 == archive.sha256)
}

/// `bytes 5-9/10`: where it starts, and the whole's length unless that is `*`.
fn content_range(response: &Response) -> Option<(u64, Option<u64>)> {
    let text = response.headers().get(CONTENT_RANGE)?.to_str().ok()?;
    let (range, total) = text.strip_prefix("bytes ")?.split_once('/')?;
    let (from, _) = range.split_once('-')?;
    Some((from.parse().ok()?, total.parse().ok()))
}

/// Seconds that the server requests to wait; dates are not read.
fn retry_after(response: &Response) -> Option<Duration> {
    let text = response.headers().get(RETRY_AFTER)?.to_str().ok()?;
    text.trim().parse().ok().map(Duration::from_secs)
}

/// An error with its causes: the outermost alone is often uninformative.
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let more = error.to_string();
        if !text.contains(&more) {
            text = format!("{text}: {more}");
        }
        cause = error.source();
    }
    text
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests;
