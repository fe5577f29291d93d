//! A headless browser, driven over a pair of pipes: what a page says, what keys do to it, and how it looks.
//!
//! The browser's debugging protocol: JSON messages, each followed by a zero byte, on file descriptors 3 and 4.

use serde_json::{Value, json};
use std::collections::VecDeque;
use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const BROWSERS: [&str; 3] = ["chromium", "chromium-browser", "google-chrome"];
/// A page that sends nothing for this long is broken.
const PATIENCE: Duration = Duration::from_secs(120);

pub(crate) struct Browser {
    child: Child,
    to: File,
    from: BufReader<File>,
    session: String,
    next: u64,
    /// Events that came while an answer was waited for.
    events: VecDeque<Value>,
}

impl Browser {
    /// Starts one, if there is one; its files are in `folder`.
    pub(crate) fn start(folder: &Path) -> Option<Browser> {
        let has_version = |name: &&str| {
            let said = Command::new(name).arg("--version").output();
            said.is_ok_and(|said| said.status.success())
        };
        let name = BROWSERS.into_iter().find(has_version)?;
        let [to, from] = ["to", "from"].map(|name| folder.join(name));
        for pipe in [&to, &from] {
            assert!(Command::new("mkfifo").arg(pipe).status().unwrap().success());
        }
        let child = Command::new("sh")
            .args(["-c", r#"exec "$0" "$@" 3<"$TO_BROWSER" 4>"$FROM_BROWSER""#, name])
            .args([
                "--headless",
                "--no-sandbox",
                "--disable-gpu",
                "--disable-dev-shm-usage",
            ])
            .args(["--no-first-run", "--remote-debugging-pipe"])
            .arg(format!("--user-data-dir={}", folder.join("profile").display()))
            .arg("about:blank")
            .env("TO_BROWSER", &to)
            .env("FROM_BROWSER", &from)
            .env("HOME", folder)
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let to = File::options().write(true).open(&to).unwrap();
        let from = BufReader::new(File::open(&from).unwrap());
        let mut browser = Browser {
            child,
            to,
            from,
            session: String::new(),
            next: 0,
            events: VecDeque::new(),
        };
        let target = browser.call("Target.createTarget", json!({ "url": "about:blank" }));
        let attach = json!({ "targetId": target["targetId"], "flatten": true });
        let attached = browser.call("Target.attachToTarget", attach);
        browser.session = attached["sessionId"].as_str().unwrap().to_owned();
        for domain in ["Page.enable", "Runtime.enable", "Network.enable"] {
            browser.call(domain, json!({}));
        }
        Some(browser)
    }

    /// Calls a method of the protocol, and waits for its answer.
    pub(crate) fn call(&mut self, method: &str, parameters: Value) -> Value {
        self.next += 1;
        let id = self.next;
        let mut message = json!({ "id": id, "method": method, "params": parameters });
        if !self.session.is_empty() {
            message["sessionId"] = json!(self.session);
        }
        let mut bytes = message.to_string().into_bytes();
        bytes.push(0);
        self.to.write_all(&bytes).unwrap();
        loop {
            let mut bytes = Vec::new();
            self.from.read_until(0, &mut bytes).unwrap();
            assert_eq!(bytes.pop(), Some(0), "the browser has ended during {method}");
            let mut said: Value = serde_json::from_slice(&bytes).unwrap();
            if said["id"] == id {
                assert!(said["error"].is_null(), "{method}: {}", said["error"]);
                return said["result"].take();
            }
            self.events.push_back(said);
        }
    }

    /// The value of an expression of the page, waited for if it is a promise.
    pub(crate) fn value(&mut self, expression: &str) -> Value {
        let parameters = json!({ "expression": expression, "awaitPromise": true, "returnByValue": true });
        let mut said = self.call("Runtime.evaluate", parameters);
        assert!(said["exceptionDetails"].is_null(), "{expression}: {said}");
        said["result"]["value"].take()
    }

    /// Waits until an expression is true.
    pub(crate) fn until(&mut self, expression: &str) {
        let begun = Instant::now();
        while self.value(expression) != true {
            assert!(begun.elapsed() < PATIENCE, "it never came that {expression}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Goes to a page and waits until its scene stands still.
    pub(crate) fn open(&mut self, page: &Path, link: &str) {
        // from an empty page, or only what is behind the # would change
        self.call("Page.navigate", json!({ "url": "about:blank" }));
        let url = format!("file://{}#{link}", page.display());
        self.call("Page.navigate", json!({ "url": url }));
        self.until(
            "document.body !== null && document.body.dataset.ready === 'true' && playground.isStill()",
        );
    }

    /// The same, where it plays.
    pub(crate) fn open_playing(&mut self, page: &Path, link: &str) {
        self.call("Page.navigate", json!({ "url": "about:blank" }));
        let url = format!("file://{}#{link}", page.display());
        self.call("Page.navigate", json!({ "url": url }));
        self.until(
            "document.body !== null && document.body.dataset.ready === 'true' && !playground.isStill()",
        );
    }

    /// Presses a key.
    pub(crate) fn press(&mut self, key: &str) {
        let text = if key == " " { " " } else { "" };
        for kind in ["keyDown", "keyUp"] {
            let parameters = json!({ "type": kind, "key": key, "code": key, "text": text });
            self.call("Input.dispatchKeyEvent", parameters);
        }
    }

    /// As if on a screen of this width, in light or dark.
    pub(crate) fn screen(&mut self, width: u32, scheme: &str) {
        let metrics = json!({ "width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 600 });
        self.call("Emulation.setDeviceMetricsOverride", metrics);
        let media = json!({ "features": [{ "name": "prefers-color-scheme", "value": scheme }] });
        self.call("Emulation.setEmulatedMedia", media);
    }

    /// Exceptions of the page's script, and addresses that it asked for elsewhere, since the start.
    pub(crate) fn complaints(&mut self) -> Vec<String> {
        self.value("1");
        let events = self.events.drain(..);
        let complaint = |event: Value| match event["method"].as_str() {
            Some("Runtime.exceptionThrown") => Some(event["params"].to_string()),
            Some("Network.requestWillBeSent") => {
                let url = event["params"]["request"]["url"]
                    .as_str()
                    .unwrap_or_default()
                    .to_owned();
                let is_own =
                    url.starts_with("file:") || url.starts_with("data:") || url.starts_with("about:");
                (!is_own).then_some(url)
            }
            _ => None,
        };
        events.filter_map(complaint).collect()
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        // It is a child of ours, and holds nothing that is wanted.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
