//! The tools that only read.

use std::collections::HashSet;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use windlass_protocol::operations::ThreadSummariesQuery;
use windlass_protocol::{Call, CallError, ThreadSummary};

use super::result::{LIMIT, ToolRefusal, beginning, clean, data, end, limit_entries, texts};
use super::tools::{EventsArguments, ListArguments, McpTools, ThreadArguments, read};
use crate::client::calls;
use crate::client::ids::SEARCHED;
use crate::commands::runs;
use crate::commands::threads;
use crate::stdio_rpc::title;
use crate::terminal::Transcript;

/// Maximum size of an event's payload in a result, in bytes.
const PAYLOAD: usize = 4 * 1024;

impl McpTools {
    /// Returns the newest threads of the workspace.
    async fn own_threads(&self, include_archived: bool) -> Result<Vec<ThreadSummary>, ToolRefusal> {
        let query = ThreadSummariesQuery {
            limit: Some(SEARCHED as u64),
            include_archived: Some(include_archived),
            git: Some(false),
            ..ThreadSummariesQuery::default()
        };
        let call = Call::new((), ()).with_query(query);
        let mut threads = self.daemon.api().summarize_threads(call).await?.entries;
        threads.retain(|thread| self.is_within(&thread.workspace));
        Ok(threads)
    }

    pub(super) async fn list_threads(&self, arguments: Value) -> Result<Value, ToolRefusal> {
        let limit = read::<ListArguments>(arguments)?.limit()?;
        self.daemon.ensure_connected().await?;
        let threads = self.own_threads(false).await?;
        let shown = threads.iter().take(limit).map(|thread| {
            json!({
                "thread_id": thread.id,
                "title": title(&thread.title),
                "model": thread.model,
                "backend": thread.backend,
                "cwd": thread.workspace,
                "updated_at": thread.updated_at,
            })
        });
        let (shown, _) = limit_entries(shown);
        let is_more = shown.len() < threads.len();
        Ok(data(json!({ "threads": shown, "more": is_more })))
    }

    pub(super) async fn list_runs(&self, arguments: Value) -> Result<Value, ToolRefusal> {
        let limit = read::<ListArguments>(arguments)?.limit()?;
        self.daemon.ensure_connected().await?;
        let threads = self.own_threads(true).await?;
        let own: HashSet<_> = threads.iter().map(|thread| thread.id.as_str()).collect();
        let mut shown = Vec::new();
        for run in runs::newest(&self.data, SEARCHED).await? {
            let thread = run
                .session_id
                .map(|id| format!("thr_{}", id.uuid().simple()));
            if thread.as_ref().is_some_and(|id| !own.contains(id.as_str())) {
                continue;
            }
            shown.push(json!({
                "run_id": run.run_id,
                "thread_id": thread,
                "agent": title(&run.agent_id),
                "intent": title(&run.intent),
                "started_at": run.started_at,
                "ended_at": run.ended_at,
                "status": run.status,
                "outcome": run.outcome,
                "turns": run.turn_count,
            }));
        }
        let found = shown.len();
        shown.truncate(limit);
        let (shown, _) = limit_entries(shown);
        let is_more = shown.len() < found;
        Ok(data(json!({ "runs": shown, "more": is_more })))
    }

    pub(super) async fn show_thread(&self, arguments: Value) -> Result<Value, ToolRefusal> {
        let ThreadArguments { thread_id } = read(arguments)?;
        self.daemon.ensure_connected().await?;
        self.thread(&thread_id).await?;
        let detail = calls::full_thread(&*self.daemon.api(), &thread_id).await?;
        let mut text = Vec::new();
        threads::show(&detail, Transcript::PLAIN, &mut text)?;
        let text = String::from_utf8_lossy(&text);
        Ok(texts(&[&end(text.trim_end(), LIMIT)]))
    }

    pub(super) async fn thread_events(&self, arguments: Value) -> Result<Value, ToolRefusal> {
        let EventsArguments { thread_id, since } = read(arguments)?;
        let since = since.unwrap_or(0);
        self.daemon.ensure_connected().await?;
        let thread_id = self.thread(&thread_id).await?.id;
        let api = self.daemon.api();
        let mut parts = calls::export_parts(&*api, &thread_id, Some(since)).await?;
        let mut events = EventPage::default();
        while !events.is_full
            && let Some(part) = parts.next().await?
        {
            events.push(&part).map_err(CallError::Unreadable)?;
        }
        let last = events.events.last().map(|event| event.seq);
        Ok(data(json!({
            "thread_id": thread_id,
            "events": events.events,
            "next_since": last.unwrap_or(since),
            "more": events.is_full,
        })))
    }
}

/// The first events of an export, up to the size limit of a result.
#[derive(Default)]
struct EventPage {
    events: Vec<ShortEvent>,
    size: usize,
    is_full: bool,
    /// Whether the first line, which describes the thread, was skipped.
    is_header_read: bool,
    /// The beginning of an incomplete line.
    line: Vec<u8>,
}

/// The fields of an event in a result.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct ShortEvent {
    seq: u64,
    event: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    turn_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    item_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    timestamp: Option<String>,
    /// A long payload is replaced by a string with the beginning of its JSON.
    payload: Value,
}

impl ShortEvent {
    fn read(line: &[u8]) -> serde_json::Result<Self> {
        let mut event: Self = serde_json::from_slice(line)?;
        event.payload = clean(event.payload);
        let payload = event.payload.to_string();
        if payload.len() > PAYLOAD {
            event.payload = beginning(&payload, PAYLOAD).into();
        }
        Ok(event)
    }
}

impl EventPage {
    /// Adds a chunk of the export, up to the size limit.
    fn push(&mut self, part: &[u8]) -> serde_json::Result<()> {
        for piece in part.split_inclusive(|byte| *byte == b'\n') {
            self.line.extend_from_slice(piece);
            if !piece.ends_with(b"\n") {
                continue;
            }
            let line = std::mem::take(&mut self.line);
            if !std::mem::replace(&mut self.is_header_read, true) {
                continue;
            }
            let event = ShortEvent::read(&line)?;
            self.size += serde_json::to_string(&event)?.len() + 1;
            if self.size > LIMIT {
                self.is_full = true;
                return Ok(());
            }
            self.events.push(event);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn exported(payload: &str, count: usize) -> String {
        let events = (1..=count).map(|seq| {
            format!("{}\n", json!({ "seq": seq, "event": "x", "payload": { "text": payload }, "schema_version": 1 }))
        });
        "{\"thread\":{}}\n".to_owned() + &events.collect::<String>()
    }

    #[test]
    fn events_are_read_from_chunks_of_any_size() {
        let text = exported("a\u{9b}b", 2);
        for size in [1, 7, text.len()] {
            let mut events = EventPage::default();
            for piece in text.as_bytes().chunks(size) {
                events.push(piece).unwrap();
            }
            let expected = json!({ "seq": 2, "event": "x", "payload": { "text": "a\\u{9b}b" } });
            let second = serde_json::to_value(&events.events[1]).unwrap();
            assert_eq!((events.events.len(), second), (2, expected));
        }
    }

    #[test]
    fn long_events_are_cut_and_their_number_is_limited() {
        let mut events = EventPage::default();
        let text = exported(&"y".repeat(PAYLOAD * 2), 100);
        events.push(text.as_bytes()).unwrap();
        assert!(events.is_full && events.events.len() > 10 && events.events.len() < 20);
        let payload = events.events[0].payload.as_str().unwrap();
        assert!(payload.contains("more bytes are omitted"), "{payload}");
    }
}
