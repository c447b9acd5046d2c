//! A headless chromium that a test steers over its debugging pipe: it opens pages, runs scripts in them, takes
//! pictures, and keeps what the page complained about and asked for.

use std::{
    fs,
    io::{BufRead, BufReader, Write},
    path::Path,
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
    time::{Duration, Instant},
};

use base64::{Engine, prelude::BASE64_STANDARD};
use serde_json::{Value, json};
use tempfile::TempDir;

/// Chromium reads commands from descriptor 3 and answers on 4, each message ended by a zero byte.
const START: &str = "exec \"$0\" \"$@\" 3<&0 4>&1 </dev/null >/dev/null 2>/dev/null";

/// A browser with one page.
#[derive(Debug)]
pub struct Browser {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    session: Option<String>,
    commands: u64,
    events: Vec<Value>,
    _profile: TempDir,
}

impl Browser {
    /// Starts it.
    ///
    /// # Panics
    /// It does not start.
    #[must_use]
    pub fn start(chromium: &Path) -> Self {
        let profile = tempfile::tempdir().expect("a temporary folder");
        let mut child = Command::new("sh")
            .args(["-c", START])
            .arg(chromium)
            .args(["--headless=new", "--no-sandbox", "--disable-gpu", "--remote-debugging-pipe"])
            .arg("--hide-scrollbars")
            .arg(format!("--user-data-dir={}", profile.path().display()))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("chromium starts");
        let input = child.stdin.take().expect("a pipe");
        let output = BufReader::new(child.stdout.take().expect("a pipe"));
        let (session, commands, events) = (None, 0, Vec::new());
        let mut browser = Self { child, input, output, session, commands, events, _profile: profile };
        let target = browser.call("Target.createTarget", json!({ "url": "about:blank" }));
        let target = json!({ "targetId": target["targetId"], "flatten": true });
        let session = browser.call("Target.attachToTarget", target);
        browser.session = session["sessionId"].as_str().map(str::to_string);
        for domain in ["Page", "Runtime", "Network", "Log"] {
            let _ = browser.call(&format!("{domain}.enable"), json!({}));
        }
        browser
    }

    /// The answer to a command of the debugging protocol.
    ///
    /// # Panics
    /// The browser is gone, or refuses.
    pub fn call(&mut self, method: &str, params: Value) -> Value {
        self.commands += 1;
        let mut command = json!({ "id": self.commands, "method": method, "params": params });
        if let Some(session) = &self.session {
            command["sessionId"] = json!(session);
        }
        self.input.write_all(format!("{command}\0").as_bytes()).expect("the browser listens");
        loop {
            let mut message = Vec::new();
            let read = self.output.read_until(0, &mut message).expect("the browser answers");
            assert!(read > 0, "the browser is gone");
            message.pop();
            let mut message: Value = serde_json::from_slice(&message).expect("messages are JSON");
            if message["id"] == self.commands {
                assert!(message.get("error").is_none(), "{method}: {message}");
                return message["result"].take();
            }
            self.events.push(message);
        }
    }

    /// The size of the window in CSS pixels.
    pub fn resize(&mut self, width: u32, height: u32) {
        let size = json!({ "width": width, "height": height, "deviceScaleFactor": 1, "mobile": false });
        let _ = self.call("Emulation.setDeviceMetricsOverride", size);
    }

    /// `screen` or `print`, light or dark.
    pub fn media(&mut self, media: &str, scheme: &str) {
        let scheme = json!([{ "name": "prefers-color-scheme", "value": scheme }]);
        let _ = self.call("Emulation.setEmulatedMedia", json!({ "media": media, "features": scheme }));
    }

    /// The value of an expression in the page.
    ///
    /// # Panics
    /// It throws.
    pub fn value(&mut self, expression: &str) -> Value {
        let script = json!({ "expression": expression, "returnByValue": true, "awaitPromise": true });
        let mut answer = self.call("Runtime.evaluate", script);
        assert!(answer.get("exceptionDetails").is_none(), "{expression}: {answer}");
        answer["result"]["value"].take()
    }

    /// Waits until an expression is true.
    ///
    /// # Panics
    /// It never is.
    pub fn wait(&mut self, expression: &str) -> Duration {
        let begun = Instant::now();
        while self.value(&format!("Boolean({expression})")) != true {
            assert!(begun.elapsed() < crate::HANG, "never: {expression}");
            std::thread::sleep(Duration::from_millis(10));
        }
        begun.elapsed()
    }

    /// Opens an address, and the time until its charts are drawn.
    pub fn open(&mut self, address: &str) -> Duration {
        let begun = Instant::now();
        // The page before must not be taken for the new one.
        let _ = self.call("Page.navigate", json!({ "url": "about:blank" }));
        let _ = self.call("Page.navigate", json!({ "url": address }));
        let _ = self.wait("document.documentElement?.dataset.drawn");
        begun.elapsed()
    }

    /// Saves a picture of the whole page.
    ///
    /// # Panics
    /// The file cannot be written.
    pub fn picture(&mut self, path: &Path) {
        let size = self.value("[innerWidth, Math.min(document.documentElement.scrollHeight, 16000)]");
        let clip = json!({ "x": 0, "y": 0, "width": size[0], "height": size[1], "scale": 1 });
        let shot = json!({ "format": "png", "captureBeyondViewport": true, "clip": clip });
        let shot = self.call("Page.captureScreenshot", shot);
        let bytes = BASE64_STANDARD.decode(shot["data"].as_str().expect("a picture")).expect("base64");
        fs::write(path, bytes).expect("a picture can be written");
    }

    /// Errors and messages on the console so far.
    #[must_use]
    pub fn complaints(&self) -> Vec<String> {
        const KINDS: [&str; 3] = ["Runtime.exceptionThrown", "Runtime.consoleAPICalled", "Log.entryAdded"];
        let is_one = |event: &&Value| KINDS.iter().any(|kind| event["method"] == *kind);
        self.events.iter().filter(is_one).map(ToString::to_string).collect()
    }

    /// Every address that was asked for, those in the page itself left out.
    #[must_use]
    pub fn requests(&self) -> Vec<String> {
        let sent = self.events.iter().filter(|event| event["method"] == "Network.requestWillBeSent");
        let addresses = sent.filter_map(|event| event["params"]["request"]["url"].as_str());
        addresses.filter(|address| !address.starts_with("data:")).map(str::to_string).collect()
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
