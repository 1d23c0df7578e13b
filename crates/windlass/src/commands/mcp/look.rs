//! The read-only tools.

use std::collections::HashSet;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use windlass_core::bounds::one_line;
use windlass_protocol::operations::ThreadSummariesQuery;
use windlass_protocol::{Call, CallError, ThreadDetail, ThreadSummary};

use super::answer::{LIMIT, Refusal, as_many_as_fit, beginning, clean, data, end, texts};
use super::tools::Tools;
use crate::calls;
use crate::commands::runs;
use crate::commands::threads;
use crate::ids::LOOKED_THROUGH;

/// Maximum length of a title or intent in a list, in characters.
const TITLE: usize = 200;
/// Maximum size of an event's payload in a result, in bytes.
const PAYLOAD: usize = 4 * 1024;

impl Tools {
    /// Returns the newest threads of the workspace.
    async fn own_threads(&self, is_archived_too: bool) -> Result<Vec<ThreadSummary>, Refusal> {
        let query = ThreadSummariesQuery {
            limit: Some(LOOKED_THROUGH as u64),
            include_archived: Some(is_archived_too),
            git: Some(false),
            ..ThreadSummariesQuery::default()
        };
        let call = Call::new((), ()).with_query(query);
        let mut threads = self.link.api().summarize_threads(call).await?.entries;
        threads.retain(|thread| self.is_within(&thread.workspace));
        Ok(threads)
    }

    pub(super) async fn threads(&self, limit: usize) -> Result<Value, Refusal> {
        let threads = self.own_threads(false).await?;
        let shown = threads.iter().take(limit).map(|thread| {
            json!({
                "thread_id": thread.id,
                "title": cut(&thread.title),
                "model": thread.model,
                "backend": thread.backend,
                "cwd": thread.workspace,
                "updated_at": thread.updated_at,
            })
        });
        let (shown, _) = as_many_as_fit(shown);
        let is_more = shown.len() < threads.len();
        Ok(data(json!({ "threads": shown, "more": is_more })))
    }

    pub(super) async fn runs(&self, limit: usize) -> Result<Value, Refusal> {
        let threads = self.own_threads(true).await?;
        let own: HashSet<_> = threads.iter().map(|thread| thread.id.as_str()).collect();
        let mut shown = Vec::new();
        for run in runs::newest(&self.data, LOOKED_THROUGH).await? {
            let thread = run
                .session_id
                .map(|id| format!("thr_{}", id.uuid().simple()));
            if thread.as_ref().is_some_and(|id| !own.contains(id.as_str())) {
                continue;
            }
            shown.push(json!({
                "run_id": run.run_id,
                "thread_id": thread,
                "agent": cut(&run.agent_id),
                "intent": cut(&run.intent),
                "started_at": run.started_at,
                "ended_at": run.ended_at,
                "status": run.status,
                "outcome": run.outcome,
                "turns": run.turn_count,
            }));
        }
        let found = shown.len();
        shown.truncate(limit);
        let (shown, _) = as_many_as_fit(shown);
        let is_more = shown.len() < found;
        Ok(data(json!({ "runs": shown, "more": is_more })))
    }

    pub(super) async fn events(&self, thread_id: &str, since: u64) -> Result<Value, Refusal> {
        let api = self.link.api();
        let mut parts = calls::export_parts(&*api, thread_id, Some(since)).await?;
        let mut events = Events::default();
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

/// Formats a thread as text.
pub(super) fn shown(detail: &ThreadDetail) -> Result<Value, Refusal> {
    let mut shown = Vec::new();
    threads::show(detail, &mut shown)?;
    let shown = String::from_utf8_lossy(&shown);
    Ok(texts(&[&end(shown.trim_end(), LIMIT)]))
}

/// The events of an export, as many as fit into a result.
#[derive(Default)]
struct Events {
    events: Vec<ShortEvent>,
    size: usize,
    is_full: bool,
    /// Whether the first line, which describes the thread, was read.
    is_after_head: bool,
    /// The beginning of an incomplete line.
    line: Vec<u8>,
}

/// The fields of an event that are relevant to a reader.
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

impl Events {
    /// Adds a chunk of the export, up to the first event that does not fit.
    fn push(&mut self, part: &[u8]) -> serde_json::Result<()> {
        for piece in part.split_inclusive(|byte| *byte == b'\n') {
            self.line.extend_from_slice(piece);
            if !piece.ends_with(b"\n") {
                continue;
            }
            let line = std::mem::take(&mut self.line);
            if !std::mem::replace(&mut self.is_after_head, true) {
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

/// Shortens a line and marks the cut with `…`.
pub(super) fn cut(text: &str) -> String {
    let line = one_line(text);
    match line.char_indices().nth(TITLE) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line.into_owned(),
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
    fn events_are_found_however_the_export_is_cut() {
        let text = exported("a\u{9b}b", 2);
        for size in [1, 7, text.len()] {
            let mut events = Events::default();
            for piece in text.as_bytes().chunks(size) {
                events.push(piece).unwrap();
            }
            let expected = json!({ "seq": 2, "event": "x", "payload": { "text": "a\\u{9b}b" } });
            let second = serde_json::to_value(&events.events[1]).unwrap();
            assert_eq!((events.events.len(), second), (2, expected));
        }
    }

    #[test]
    fn long_events_are_cut_and_many_are_left_out() {
        let mut events = Events::default();
        let text = exported(&"y".repeat(PAYLOAD * 2), 100);
        events.push(text.as_bytes()).unwrap();
        assert!(events.is_full && events.events.len() > 10 && events.events.len() < 20);
        let payload = events.events[0].payload.as_str().unwrap();
        assert!(payload.contains("bytes more are left out"), "{payload}");
    }
}
