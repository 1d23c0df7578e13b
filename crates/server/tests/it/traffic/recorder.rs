//! Records requests and answers with IDs, times and paths replaced, so that two runs produce the same text.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt::Write as _;

use regex::{Captures, Regex};
use serde_json::Value;

use super::declared;
use crate::support::{Client, Reply};

/// Response headers that are part of the contract.
const HEADERS: [&str; 6] = [
    "content-type",
    "x-windlass-next-cursor",
    "idempotency-replayed",
    "retry-after",
    "allow",
    "location",
];

/// Collects the recorded text and the routes with a successful response.
pub(super) struct Recorder {
    client: Client,
    text: String,
    answered: BTreeSet<String>,
    replacer: Replacer,
}

/// Replaces values that vary. IDs are numbered in the order of their first appearance.
struct Replacer {
    fixed: Vec<(String, &'static str)>,
    numbers: HashMap<String, String>,
    counts: BTreeMap<String, usize>,
    id: Regex,
    volatile: Vec<(Regex, &'static str)>,
}

impl Replacer {
    fn new(fixed: Vec<(String, &'static str)>) -> Self {
        let pattern = |pattern: &str| Regex::new(pattern).unwrap();
        Self {
            fixed,
            numbers: HashMap::new(),
            counts: BTreeMap::new(),
            id: pattern(
                r"\b([a-z]+_)?([0-9a-f]{32}|[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12})\b",
            ),
            volatile: vec![
                (
                    pattern(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|\+00:00)"),
                    "<time>",
                ),
                (
                    pattern(r#"(\\?"(?:\w+_ms|timestamp|port)\\?":)\d+"#),
                    "$1<n>",
                ),
                (pattern(r#"("bytes":)\d+(,"(?:data|redacted)")"#), "$1<n>$2"),
                // Sizes depend on the length of local paths.
                (
                    pattern(
                        r#"("(?:estimated_input_tokens|remaining_context_tokens|used_percent)":)[\d.]+"#,
                    ),
                    "$1<n>",
                ),
                // The value depends on the machine's sandboxes.
                (pattern(r#"(\\?"sandbox\\?":\\?")\w+"#), "$1<sandbox>"),
                (pattern(r#""(\w*cursor)":"[^"]+""#), r#""$1":"<cursor>""#),
                (pattern(r"cursor=[^ &]+"), "cursor=<cursor>"),
                (pattern(r"127\.0\.0\.1:\d+"), "<address>"),
                (pattern(r"\b[0-9a-f]{64}\b"), "<digest>"),
                // Ids of connections.
                (pattern(r"\b[0-9a-f]{12}\b"), "<connection>"),
            ],
        }
    }

    fn replace(&mut self, text: &str) -> String {
        let mut text = text.to_owned();
        for (value, name) in &self.fixed {
            text = text.replace(value.as_str(), name);
        }
        let (numbers, counts) = (&mut self.numbers, &mut self.counts);
        text = self
            .id
            .replace_all(&text, |found: &Captures<'_>| {
                let prefix = found.get(1).map_or("id_", |prefix| prefix.as_str());
                let entry = numbers.entry(found[2].to_owned()).or_insert_with(|| {
                    let count = counts.entry(prefix.to_owned()).or_default();
                    *count += 1;
                    format!("{prefix}{count}")
                });
                match found.get(1) {
                    Some(prefix) if !entry.starts_with(prefix.as_str()) => {
                        format!("{}<{entry}>", prefix.as_str())
                    }
                    _ => entry.clone(),
                }
            })
            .into_owned();
        for (pattern, name) in &self.volatile {
            text = pattern.replace_all(&text, *name).into_owned();
        }
        text
    }
}

impl Recorder {
    /// Starts a recording; `fixed` values (such as directories) are replaced by their names.
    pub(super) fn new(client: Client, fixed: Vec<(String, &'static str)>) -> Self {
        Self {
            client,
            text: String::new(),
            answered: BTreeSet::new(),
            replacer: Replacer::new(fixed),
        }
    }

    pub(super) fn client(&self) -> &Client {
        &self.client
    }

    pub(super) fn heading(&mut self, title: &str) {
        let _ = write!(self.text, "\n## {title}\n\n");
    }

    /// Adds a line with its volatile values replaced.
    pub(super) fn line(&mut self, line: &str) {
        let line = self.replacer.replace(line);
        let _ = writeln!(self.text, "{line}");
    }

    /// Sends a request to a route and records both. `route` is the path template, and `ids` are its parameters.
    pub(super) async fn send(
        &mut self,
        method: &str,
        route: &str,
        ids: &[&str],
        body: Option<Value>,
    ) -> Reply {
        let (path, query) = route.split_once('?').unwrap_or((route, ""));
        let mut ids = ids.iter();
        let filled: Vec<_> = path
            .split('/')
            .map(|part| {
                if part.starts_with('{') {
                    (*ids.next().unwrap()).to_owned()
                } else {
                    part.to_owned()
                }
            })
            .collect();
        let mut target = filled.join("/");
        if !query.is_empty() {
            target = format!("{target}?{query}");
        }
        let text = body.map(|body| match body {
            Value::String(raw) => raw,
            body => body.to_string(),
        });
        let reply = self.client.raw(method, &target, text.as_deref()).await;
        declared::check(method, path, &reply);
        if reply.status < 400 {
            self.answered.insert(format!("{method} {path}"));
        }
        self.line(&format!(
            "> {method} {target} {}",
            text.as_deref().unwrap_or_default()
        ));
        self.answer(&reply);
        reply
    }

    fn answer(&mut self, reply: &Reply) {
        let mut line = format!("< {}", reply.status);
        for name in HEADERS {
            if let Some(value) = reply.header(name) {
                let value = if name.contains("cursor") {
                    "<cursor>"
                } else {
                    value
                };
                let _ = write!(line, " {name}={value}");
            }
        }
        self.line(&line);
        let body = String::from_utf8_lossy(&reply.body).into_owned();
        if !body.is_empty() {
            self.line(&body);
        }
    }

    /// Marks a route as exercised by other means, such as a stream.
    pub(super) fn exercised(&mut self, route: &str) {
        self.answered.insert(route.to_owned());
    }

    pub(super) fn finish(self) -> (String, BTreeSet<String>) {
        (self.text, self.answered)
    }
}
