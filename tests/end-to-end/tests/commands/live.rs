//! `top` and `watch` over runs, and the live page beside a run.

use std::{
    io::{BufRead, BufReader, Read, Write},
    net::TcpStream,
    process::{ChildStderr, ChildStdout, Stdio},
};

use altgrad_end_to_end::{Bench, TINY};

/// Port and path of the first address in some output.
fn address(output: impl Read) -> (u16, String) {
    let mut lines = BufReader::new(output).lines().map_while(Result::ok);
    let url = lines.find_map(|line| line.strip_prefix("http://127.0.0.1:").map(str::to_string)).unwrap();
    let (port, path) = url.split_once('/').unwrap();
    (port.parse().unwrap(), format!("/{path}"))
}

fn get(port: u16, path: &str) -> String {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    write!(stream, "GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nConnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

/// fp32 and E4M3 of one seed, under names that a terminal would obey.
fn runs() -> Bench {
    let bench = Bench::new();
    bench.write("tiny.toml", &format!("{TINY}[[sink]]\nname = \"csv\"\n"));
    for format in ["none", "E4M3"] {
        let (out, set) = (format!("runs/{format}"), format!("quant.weight={format}"));
        let outcome = bench.host(&["run", "tiny.toml", "--quiet", "--out", &out, "--set", &set]);
        assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    }
    bench
}

#[test]
fn top_prints_a_line_a_run_with_its_distance_from_its_twin() {
    let bench = runs();
    let outcome = bench.host(&["top", "runs"]);
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    let line =
        outcome.stdout.lines().find(|line| line.contains("completed") && line.contains('-')).unwrap_or("");
    // The final evaluation, as `run.json` and the last row of metrics.csv have it.
    let last = |run: &str| {
        let status = bench.read(&format!("runs/{run}/run.json"));
        serde_json::from_str::<serde_json::Value>(&status).unwrap()["final_val_loss"].as_f64().unwrap()
    };
    let difference = format!("{:.4}", last("E4M3") - last("none"));
    assert!(outcome.stdout.contains(&difference), "{difference} in {}{line}", outcome.stdout);
    assert!(!outcome.stdout.contains('\u{1b}'), "no escape sequence where the output is no terminal");
    let outcome = bench.host(&["top", "/no/such/run"]);
    assert_eq!(outcome.code, 2);
}

#[test]
fn watch_serves_the_page_of_the_runs_and_dies_without_a_trace() {
    let bench = runs();
    let before = bench.contents();
    let mut child = bench.command(&["watch", "runs"]).stdout(Stdio::piped()).spawn().unwrap();
    let (port, path) = address(child.stdout.take().map(|out: ChildStdout| out).unwrap());
    let page = get(port, &path);
    assert!(page.starts_with("HTTP/1.1 200") && page.contains("<h3>Significance</h3>"), "{page:.300}");
    assert!(get(port, "/").starts_with("HTTP/1.1 403"));
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(bench.contents(), before);
}

#[test]
fn a_run_serves_its_page_while_it_goes_on() {
    let bench = Bench::new();
    bench.write("tiny.toml", &format!("{TINY}[[sink]]\nname = \"csv\"\n"));
    let sets = ["--set", "train.max_steps=100000", "--set", "train.decay_steps=100000"];
    let args = [&["run", "tiny.toml", "--quiet", "--watch", "--out", "runs/long"][..], &sets].concat();
    let mut child = bench.command(&args).stderr(Stdio::piped()).spawn().unwrap();
    let (port, path) = address(child.stderr.take().map(|out: ChildStderr| out).unwrap());
    assert!(get(port, &format!("{path}content")).contains("<h3>Significance</h3>"));
    child.kill().unwrap();
    child.wait().unwrap();
    // The page ends with the run, however that ends.
    let gone = (0..100).any(|_| {
        std::thread::sleep(std::time::Duration::from_millis(100));
        TcpStream::connect(("127.0.0.1", port)).is_err()
    });
    assert!(gone, "the page is still served");
}
