//! Chromium, driven over WebDriver.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde_json::{Value, json};

use crate::skipped;

/// Turns a hang into a failure.
const PATIENCE: Duration = Duration::from_secs(60);
/// A value of this variable makes a missing browser a failure.
const REQUIRED: &str = "WINDLASS_BROWSER";

/// A headless browser with a profile of its own. Dropping it ends the browser.
pub struct Browser {
    driver: Child,
    port: u16,
    session: String,
    _profile: tempfile::TempDir,
}

impl Browser {
    /// Starts a browser; without one on this machine, reports the test as skipped and returns `None`.
    #[track_caller]
    #[must_use]
    pub fn start(test: &str) -> Option<Self> {
        let has = |program: &str| {
            let mut probe = Command::new(program);
            probe
                .arg("--version")
                .stdout(Stdio::null())
                .stderr(Stdio::null());
            probe.status().is_ok_and(|status| status.success())
        };
        if !has("chromium") || !has("chromedriver") {
            let is_required = std::env::var_os(REQUIRED).is_some_and(|value| value == "required");
            assert!(!is_required, "chromium or chromedriver is not installed");
            skipped(test, "chromium or chromedriver is not installed");
            return None;
        }
        Some(Self::launch().unwrap_or_else(|error| panic!("no browser: {error}")))
    }

    fn launch() -> io::Result<Self> {
        let profile = tempfile::tempdir()?;
        let mut driver = Command::new("chromedriver")
            .arg("--port=0")
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()?;
        let output = driver.stdout.take().ok_or(io::ErrorKind::BrokenPipe)?;
        let port = BufReader::new(output)
            .lines()
            .map_while(Result::ok)
            .find_map(|line| {
                let (_, port) = line.split_once("successfully on port ")?;
                port.trim_end_matches('.').parse().ok()
            })
            .ok_or(io::ErrorKind::UnexpectedEof)?;
        let mut browser = Self {
            driver,
            port,
            session: String::new(),
            _profile: profile,
        };
        // The sandbox of Chromium does not start for root, as whom containers run.
        let directory = browser._profile.path().display();
        let arguments = [
            "--headless=new".to_owned(),
            "--no-sandbox".to_owned(),
            "--disable-gpu".to_owned(),
            "--disable-dev-shm-usage".to_owned(),
            format!("--user-data-dir={directory}"),
        ];
        let wanted = json!({ "capabilities": { "alwaysMatch": {
            "browserName": "chrome",
            "goog:chromeOptions": { "args": arguments },
            "goog:loggingPrefs": { "browser": "ALL" },
            "timeouts": { "script": PATIENCE.as_millis() },
        } } });
        let session = browser.exchange("POST", "/session", &wanted);
        let session = session.map_err(io::Error::other)?;
        let id = session["sessionId"].as_str().unwrap_or_default();
        browser.session = format!("/session/{id}");
        browser.screen(1280, 800, false);
        Ok(browser)
    }

    /// Sends a command and returns its `value`.
    fn exchange(&self, method: &str, path: &str, body: &Value) -> Result<Value, String> {
        let send = || -> io::Result<Vec<u8>> {
            let mut stream = TcpStream::connect(("127.0.0.1", self.port))?;
            stream.set_read_timeout(Some(PATIENCE * 2))?;
            let body = if body.is_null() {
                String::new()
            } else {
                body.to_string()
            };
            write!(
                stream,
                "{method} {path} HTTP/1.1\r\nhost: 127.0.0.1:{}\r\nconnection: close\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
                self.port,
                body.len()
            )?;
            let mut reader = BufReader::new(stream);
            let (mut length, mut line) = (0, String::new());
            while line != "\r\n" {
                line.clear();
                if reader.read_line(&mut line)? == 0 {
                    return Err(io::ErrorKind::UnexpectedEof.into());
                }
                if let Some((name, value)) = line.split_once(':')
                    && name.eq_ignore_ascii_case("content-length")
                {
                    length = value.trim().parse().map_err(io::Error::other)?;
                }
            }
            let mut content = vec![0; length];
            reader.read_exact(&mut content)?;
            Ok(content)
        };
        let content = send().map_err(|error| format!("{method} {path}: {error}"))?;
        let mut answer: Value =
            serde_json::from_slice(&content).map_err(|error| error.to_string())?;
        let value = answer["value"].take();
        if value["error"].is_string() {
            return Err(format!("{}: {}", value["error"], value["message"]));
        }
        Ok(value)
    }

    #[track_caller]
    fn command(&self, path: &str, body: &Value) -> Value {
        let answer = self.exchange("POST", &format!("{}{path}", self.session), body);
        answer.unwrap_or_else(|error| panic!("{error}"))
    }

    /// Opens a page and waits until it is loaded.
    #[track_caller]
    pub fn open(&self, url: &str) {
        self.command("/url", &json!({ "url": url }));
    }

    /// Runs the body of a function in the page; `arguments` has the values.
    #[track_caller]
    pub fn run(&self, script: &str, arguments: &[Value]) -> Value {
        let body = json!({ "script": script, "args": arguments });
        self.command("/execute/sync", &body)
    }

    /// Awaits an expression in the page and returns its value.
    #[track_caller]
    pub fn await_value(&self, expression: &str) -> Value {
        let script = format!(
            "const done = arguments[0]; (async () => ({expression}))().then(value => done({{value}}), error => done({{error: String(error)}}))"
        );
        let mut answer = self.command("/execute/async", &json!({ "script": script, "args": [] }));
        assert!(
            answer["error"].is_null(),
            "{expression}: {}",
            answer["error"]
        );
        answer["value"].take()
    }

    /// Waits until an expression is true in the page, and returns its value.
    #[track_caller]
    pub fn until(&self, expression: &str) -> Value {
        let script = format!(
            "const done = arguments[0], end = Date.now() + {};
             const look = () => {{
               let value = null;
               try {{ value = {expression}; }} catch (error) {{ value = null; }}
               if (value) done(value);
               else if (Date.now() > end) done(null);
               else setTimeout(look, 20);
             }};
             look();",
            PATIENCE.as_millis() / 2
        );
        let value = self.command("/execute/async", &json!({ "script": script, "args": [] }));
        if value.is_null() {
            let text = self.run("return document.body.innerText", &[]);
            panic!(
                "{expression} did not become true on the page:\n{}",
                text.as_str().unwrap_or_default()
            );
        }
        value
    }

    /// Clicks on an element, as a user would: it must be visible and not covered.
    #[track_caller]
    pub fn click(&self, selector: &str) {
        let element = self.element(selector);
        self.command(&format!("/element/{element}/click"), &json!({}));
    }

    /// Types into an element.
    #[track_caller]
    pub fn type_text(&self, selector: &str, text: &str) {
        let element = self.element(selector);
        let path = format!("/element/{element}/value");
        self.command(&path, &json!({ "text": text }));
    }

    #[track_caller]
    fn element(&self, selector: &str) -> String {
        let body = json!({ "using": "css selector", "value": selector });
        let found = self.command("/element", &body);
        let id = found.as_object().and_then(|fields| fields.values().next());
        id.and_then(Value::as_str).unwrap_or_default().to_owned()
    }

    /// Sets the size of the page and its colour scheme.
    #[track_caller]
    pub fn screen(&self, width: u32, height: u32, is_dark: bool) {
        let scheme = if is_dark { "dark" } else { "light" };
        let size = json!({ "width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 800 });
        let media = json!({ "features": [{ "name": "prefers-color-scheme", "value": scheme }] });
        self.devtools("Emulation.setDeviceMetricsOverride", &size);
        self.devtools("Emulation.setEmulatedMedia", &media);
    }

    #[track_caller]
    fn devtools(&self, name: &str, params: &Value) {
        self.command(
            "/goog/cdp/execute",
            &json!({ "cmd": name, "params": params }),
        );
    }

    /// Returns the messages of the browser's console since the last call.
    #[track_caller]
    #[must_use]
    pub fn messages(&self) -> Vec<String> {
        let log = self.command("/se/log", &json!({ "type": "browser" }));
        let entries = log.as_array().into_iter().flatten();
        entries
            .map(|entry| format!("{}: {}", entry["level"], entry["message"]))
            .collect()
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        // The driver ends the browser with its session.
        let _ = self.exchange("DELETE", &self.session, &Value::Null);
        let _ = self.driver.kill();
        let _ = self.driver.wait();
    }
}
