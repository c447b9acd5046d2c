//! Downloads from a local server that behaves as servers do on bad days.

use std::{
    io::{BufRead, BufReader},
    net::{TcpListener, TcpStream},
    sync::{Arc, Mutex},
};

use super::*;

/// The server's response to a request.
#[derive(Debug, Clone)]
enum Answer {
    /// Serves the file, from the requested range on.
    Serve,
    /// The same, but the connection drops after so many bytes.
    Drop(usize),
    /// Serves the whole file and ignores the range.
    IgnoreRange,
    /// Serves other bytes than requested, and declares them.
    WrongRange,
    /// Serves a file of another length.
    Longer,
    /// More bytes than it should, without saying how many.
    Endless,
    /// Closes without a word.
    Hang,
    /// A status line and headers, without a body.
    Status(String),
}

struct Server {
    url: String,
    requests: Arc<Mutex<Vec<String>>>,
}

impl Server {
    /// Gives these answers in turn, then serves the file.
    fn new(file: Vec<u8>, answers: Vec<Answer>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/archive", listener.local_addr().unwrap());
        let requests = Arc::new(Mutex::new(Vec::new()));
        let seen = requests.clone();
        // Ends with the process.
        thread::spawn(move || {
            let mut answers = answers.into_iter();
            for stream in listener.incoming() {
                let answer = answers.next().unwrap_or(Answer::Serve);
                // The server ignores a client that disconnects.
                serve(stream.unwrap(), &file, &answer, &seen).ok();
            }
        });
        Self { url, requests }
    }

    fn requests(&self) -> Vec<String> {
        self.requests.lock().unwrap().clone()
    }
}

fn serve(mut stream: TcpStream, file: &[u8], answer: &Answer, seen: &Mutex<Vec<String>>) -> io::Result<()> {
    let mut from = None;
    let mut reader = BufReader::new(stream.try_clone()?);
    loop {
        let mut line = String::new();
        reader.read_line(&mut line)?;
        let line = line.trim().to_lowercase();
        if let Some(range) = line.strip_prefix("range: bytes=") {
            from = range.trim_end_matches('-').parse::<usize>().ok();
        }
        if line.is_empty() {
            break;
        }
    }
    seen.lock().unwrap().push(from.map_or("whole".into(), |from| format!("from {from}")));
    let head = |status: &str, length: usize, more: &str| {
        format!("HTTP/1.1 {status}\r\nContent-Length: {length}\r\nConnection: close\r\n{more}\r\n")
    };
    let whole = |file: &[u8]| [head("200 OK", file.len(), "").as_bytes(), file].concat();
    let ranged = |shift: usize| match from {
        Some(from) if from >= file.len() => head("416 Range Not Satisfiable", 0, "").into_bytes(),
        Some(from) => {
            let start = from - shift;
            let range = format!("Content-Range: bytes {start}-{}/{}\r\n", file.len() - 1, file.len());
            [head("206 Partial Content", file.len() - start, &range).as_bytes(), &file[start..]].concat()
        }
        None => whole(file),
    };
    match answer {
        Answer::Serve => stream.write_all(&ranged(0)),
        Answer::Drop(bytes) => {
            let answer = ranged(0);
            let head = answer.windows(4).position(|part| part == b"\r\n\r\n").unwrap() + 4;
            stream.write_all(&answer[..(head + bytes).min(answer.len())])
        }
        Answer::IgnoreRange => stream.write_all(&whole(file)),
        Answer::WrongRange => stream.write_all(&ranged(1)),
        Answer::Longer => stream.write_all(&whole(&[file, b"!"].concat())),
        Answer::Endless => {
            stream.write_all(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n")?;
            stream.write_all(&[file, b"!"].concat())
        }
        Answer::Hang => Ok(()),
        Answer::Status(status) => {
            let (status, more) = status.split_once('\n').unwrap_or((status, ""));
            stream.write_all(head(status, 0, more).as_bytes())
        }
    }
}

struct Silent;

impl PrepareProgress for Silent {
    fn at(&self, _: &str, _: u64, _: Option<u64>) {}
    fn say(&self, _: &str) {}
}

const QUICK: Patience = Patience {
    attempts: 3,
    wait: Duration::from_millis(1),
    longest_wait: Duration::from_millis(20),
    silence: Duration::from_secs(10),
};

fn file() -> Vec<u8> {
    (0..300_000u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 24) as u8).collect()
}

fn archive() -> Archive {
    use sha2::Digest;
    let sha256 = altgrad_base::files::hex(&sha2::Sha256::digest(file()));
    Archive {
        file: "archive",
        url: "http://publisher.invalid/archive",
        hub: None,
        bytes: 300_000,
        sha256: sha256.leak(),
    }
}

/// Downloads with these answers; the file must be right if there is one.
fn fetched(answers: Vec<Answer>) -> (Result<(), Diagnostic>, Vec<String>) {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::new(file(), answers);
    let result = fetch_from(std::slice::from_ref(&server.url), &archive(), folder.path(), QUICK, &Silent);
    let result = result.map(|path| {
        assert_eq!(fs::read(path).unwrap(), file());
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    });
    (result, server.requests())
}

fn status(text: &str) -> Answer {
    Answer::Status(text.into())
}

#[test]
fn dropped_connections_are_taken_up_where_they_dropped() {
    let (result, requests) = fetched(vec![
        Answer::Drop(100_000),
        status("429 Too Many Requests\nRetry-After: 9999\r\n"),
        Answer::Hang,
        Answer::Drop(50_000),
        status("500 Internal Server Error"),
        status("503 Service Unavailable\nRetry-After: 0\r\n"),
    ]);
    result.unwrap();
    let from = |n: u32| format!("from {n}");
    assert_eq!(
        requests,
        [
            "whole".into(),
            from(100_000),
            from(100_000),
            from(100_000),
            from(150_000),
            from(150_000),
            from(150_000)
        ]
    );
}

#[test]
fn a_server_without_ranges_is_heard_from_the_beginning() {
    for answer in [Answer::IgnoreRange, Answer::WrongRange, status("416 Range Not Satisfiable")] {
        let (result, requests) = fetched(vec![Answer::Drop(100_000), answer.clone()]);
        result.unwrap();
        assert_eq!(requests[..2], ["whole", "from 100000"], "{answer:?}");
    }
}

#[test]
fn redirects_are_followed() {
    let server = Server::new(file(), vec![]);
    let (result, requests) = fetched(vec![status(&format!("302 Found\nLocation: {}\r\n", server.url))]);
    result.unwrap();
    assert_eq!((requests.len(), server.requests().len()), (1, 1));
}

#[test]
fn what_is_not_the_file_is_refused() {
    for (answers, why) in [
        (vec![Answer::Longer], "its file has 300001 bytes, the published one 300000"),
        (vec![Answer::Endless], "more bytes than the published file has"),
        (vec![status("404 Not Found")], "the server answers 404"),
        (vec![status("500 Internal Server Error"); 9], "the server answers 500"),
        (vec![Answer::Hang; 9], "error sending request"),
        (vec![status("302 Found\nLocation: /archive\r\n"); 99], "redirect"),
    ] {
        let (result, _) = fetched(answers);
        let error = result.unwrap_err();
        assert_eq!(error.fault.exit_code(), 1);
        assert!(error.place.as_ref().unwrap().contains(why), "{error}");
        assert!(error.hint.unwrap().contains("--input archive"));
    }
}

#[test]
fn wrong_contents_are_thrown_away_and_the_next_address_tried() {
    let mut other = file();
    other[299_999] ^= 1;
    let (wrong, right) = (Server::new(other, vec![]), Server::new(file(), vec![]));
    let folder = tempfile::tempdir().unwrap();
    let urls = [wrong.url.clone(), right.url.clone()];
    let path = fetch_from(&urls, &archive(), folder.path(), QUICK, &Silent).unwrap();
    assert_eq!(fs::read(path).unwrap(), file());
    let error = fetch_from(&urls[..1], &archive(), &folder.path().join("other"), QUICK, &Silent).unwrap_err();
    assert!(error.place.unwrap().contains("another SHA-256"));
    assert!(!folder.path().join("other").exists(), "nothing arrived");
}

#[test]
fn an_interrupted_download_goes_on_in_a_later_run() {
    let folder = tempfile::tempdir().unwrap();
    let (gone, back) = (
        Server::new(file(), vec![Answer::Drop(70_000), Answer::Hang, Answer::Hang, Answer::Hang]),
        Server::new(file(), vec![]),
    );
    assert!(fetch_from(&[gone.url], &archive(), folder.path(), QUICK, &Silent).is_err());
    let path =
        fetch_from(std::slice::from_ref(&back.url), &archive(), folder.path(), QUICK, &Silent).unwrap();
    assert_eq!(fs::read(path).unwrap(), file());
    assert_eq!(back.requests(), ["from 70000"]);
    // Existing bytes are not requested again.
    fetch_from(std::slice::from_ref(&back.url), &archive(), folder.path(), QUICK, &Silent).unwrap();
    assert_eq!(back.requests().len(), 1);
}

#[test]
fn a_part_of_another_file_does_no_harm() {
    for part in [vec![7; 1000], vec![7; 300_000], vec![7; 400_000]] {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("archive.part"), part).unwrap();
        let server = Server::new(file(), vec![]);
        let path = fetch_from(&[server.url], &archive(), folder.path(), QUICK, &Silent).unwrap();
        assert_eq!(fs::read(path).unwrap(), file());
    }
}

#[test]
fn mirrors_come_first() {
    let archive = Archive { hub: Some("datasets/x/archive"), ..archive() };
    let none = |_: &str| None;
    let publisher = "http://publisher.invalid/archive";
    assert_eq!(addresses(&archive, None, none), [publisher, "https://huggingface.co/datasets/x/archive"]);
    let some = |name: &str| match name {
        "HF_ENDPOINT" => Some("https://hub.invalid/".to_string()),
        "ALTGRAD_DATA_MIRROR" => Some("http://env.invalid/data".to_string()),
        _ => None,
    };
    assert_eq!(
        addresses(&archive, Some("http://mirror.invalid/"), some),
        [
            "http://mirror.invalid/archive",
            "http://env.invalid/data/archive",
            "https://hub.invalid/datasets/x/archive",
            publisher
        ]
    );
}
