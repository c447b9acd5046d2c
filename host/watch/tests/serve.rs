//! The server from a browser's view: refusals, content, delays, and files that it does not change.
#![allow(clippy::unwrap_used)]

use std::{
    collections::BTreeMap,
    fs,
    io::{BufRead, BufReader, Read, Write},
    net::TcpStream,
    path::{Path, PathBuf},
    sync::mpsc,
    time::Duration,
};

use altgrad_report::compare::{Choice, Comparison};
use altgrad_watch::{WatchOptions, serve};

/// An unfinished run: three rows so far.
fn run(folder: &Path, name: &str) -> PathBuf {
    let path = folder.join(name);
    fs::create_dir_all(&path).unwrap();
    let config = "[run]\nseed = 1\n[quant]\nweight = \"E4M3\"\n[train]\nmax_steps = 100\n";
    fs::write(path.join("config.toml"), config).unwrap();
    fs::write(path.join("metrics.csv"), "step,train/loss,val/loss\n0,5.5,5.6\n1,5.4,\n2,5.3,5.2\n").unwrap();
    let now = std::time::UNIX_EPOCH.elapsed().unwrap().as_secs();
    let status =
        format!("{{\"status\": \"running\", \"name\": {name:?}, \"steps\": 0, \"updated_unix_s\": {now}}}");
    fs::write(path.join("run.json"), status).unwrap();
    path
}

/// A server of this process: port and token.
fn served(folder: &Path) -> (u16, String) {
    let (sender, receiver) = mpsc::channel();
    let options = WatchOptions {
        named: vec![folder.to_path_buf()],
        title: "Live".into(),
        port: 0,
        compare: Box::new(|found, groups| Ok(Comparison::new(&found.runs, groups, Choice::default()))),
    };
    std::thread::spawn(move || serve(options, |url| sender.send(url.to_string()).unwrap()));
    let url = receiver.recv_timeout(Duration::from_secs(300)).unwrap();
    let (port, token) = url.strip_prefix("http://127.0.0.1:").unwrap().split_once('/').unwrap();
    (port.parse().unwrap(), token.trim_end_matches('/').to_string())
}

fn connect(port: u16, request: &str) -> TcpStream {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(300))).unwrap();
    stream.write_all(request.as_bytes()).unwrap();
    stream
}

/// Status and the rest of the answer.
fn ask(port: u16, method: &str, path: &str, host: &str) -> (u16, String) {
    let mut stream =
        connect(port, &format!("{method} {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n"));
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    (answer.split(' ').nth(1).unwrap().parse().unwrap(), answer)
}

/// Every file of a folder with its bytes and the time it was changed.
fn state(folder: &Path) -> BTreeMap<PathBuf, (Vec<u8>, std::time::SystemTime)> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true => found.extend(state(&path)),
            false => {
                let changed = fs::metadata(&path).unwrap().modified().unwrap();
                found.insert(path.clone(), (fs::read(&path).unwrap(), changed));
            }
        }
    }
    found
}

#[test]
fn requests_without_the_token_for_other_paths_or_to_another_host_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    run(folder.path(), "a");
    let before = state(folder.path());
    let (port, token) = served(folder.path());
    let own = format!("127.0.0.1:{port}");
    let status = |method: &str, path: &str, host: &str| ask(port, method, path, host).0;
    assert_eq!(status("GET", &format!("/{token}/"), &own), 200);
    assert_eq!(status("GET", &format!("/{token}/content"), &format!("localhost:{port}")), 200);
    let wrong = format!("{}0", &token[..token.len() - 1]);
    let wrong = if wrong == token { format!("{}1", &token[..token.len() - 1]) } else { wrong };
    for path in [
        "/".to_string(),
        "/content".into(),
        "/events".into(),
        format!("/{wrong}/"),
        format!("/{}/", &token[1..]),
    ] {
        assert_eq!(status("GET", &path, &own), 403, "{path}");
    }
    for below in ["x", "run.json", "../a/run.json", "%2e%2e/a/run.json", "content/", "/etc/passwd"] {
        assert_eq!(status("GET", &format!("/{token}/{below}"), &own), 404, "{below}");
    }
    for host in [
        "example.com",
        "example.com:80",
        "127.0.0.1",
        &format!("127.0.0.1:{}", port ^ 1),
        "localhost.example.com",
    ] {
        assert_eq!(status("GET", &format!("/{token}/"), host), 421, "{host}");
    }
    for method in ["POST", "PUT", "DELETE", "OPTIONS", "HEAD"] {
        assert_eq!(status(method, &format!("/{token}/"), &own), 405, "{method}");
    }
    let (_, page) = ask(port, "GET", &format!("/{token}/"), &own);
    for header in ["cache-control: no-store", "x-content-type-options: nosniff", "frame-ancestors 'none'"] {
        assert!(page.to_lowercase().contains(header), "{header}");
    }
    assert!(state(folder.path()) == before, "a server reads, and that is all");
}

#[test]
fn a_new_step_is_reported() {
    let folder = tempfile::tempdir().unwrap();
    let path = run(folder.path(), "a");
    let (port, token) = served(folder.path());
    let request = format!("GET /{token}/events HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n\r\n");
    let mut lines = BufReader::new(connect(port, &request)).lines().map_while(Result::ok);
    let mut next = |sign: &str| lines.find(|line| line.contains(sign)).unwrap();
    assert!(next("\"step\":3").contains("\"held_out\":5.2"));
    let mut metrics = fs::OpenOptions::new().append(true).open(path.join("metrics.csv")).unwrap();
    metrics.write_all(b"3,5.1,\n").unwrap();
    next("\"step\":4");
}

#[test]
fn hostile_names_are_text() {
    let folder = tempfile::tempdir().unwrap();
    let evil = "</script><script>alert(1)</script>\n\ndata: x\u{1b}[2J";
    let path = run(folder.path(), "a");
    let status = fs::read_to_string(path.join("run.json")).unwrap();
    let name = format!("{}", serde_json::json!(format!("{evil}{}", "y".repeat(1 << 20))));
    fs::write(path.join("run.json"), status.replace("\"a\"", &name)).unwrap();
    let (port, token) = served(folder.path());
    let (status, page) = ask(port, "GET", &format!("/{token}/"), &format!("127.0.0.1:{port}"));
    assert_eq!(status, 200);
    assert!(!page.contains("<script>alert(1)") && page.contains("&lt;script&gt;alert(1)"));
    assert!(!page.contains('\u{1b}') && page.len() < 1_000_000, "{} bytes", page.len());
    let request = format!("GET /{token}/events HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n\r\n");
    let mut lines = BufReader::new(connect(port, &request)).lines().map_while(Result::ok);
    let line = lines.find(|line| line.starts_with("data: ")).unwrap();
    let runs: serde_json::Value = serde_json::from_str(&line["data: ".len()..]).unwrap();
    assert!(runs[0]["name"].as_str().unwrap().starts_with("</script><script>alert(1)</script>"));
    assert!(line.len() < 2000);
}
