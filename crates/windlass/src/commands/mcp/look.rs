//! The tools that only look.

use std::collections::HashSet;
use std::io::{self, Write};

use serde_json::{Value, json};
use windlass_client::ClientError;
use windlass_core::bounds::one_line;
use windlass_protocol::{ThreadDetail, ThreadSummary};

use super::answer::{LIMIT, Refusal, as_many_as_fit, beginning, clean, data, end, texts};
use super::tools::Tools;
use crate::commands::runs;
use crate::commands::threads;
use crate::ids::LOOKED_THROUGH;

/// How many letters of a title or an intent a list has.
const TITLE: usize = 200;
/// How many bytes of what an event says are told.
const PAYLOAD: usize = 4 * 1024;

impl Tools {
    /// Returns the newest threads of the workspace.
    async fn own_threads(&self, is_archived_too: bool) -> Result<Vec<ThreadSummary>, Refusal> {
        let path = format!(
            "/v1/threads/summary?limit={LOOKED_THROUGH}&include_archived={is_archived_too}&git=false"
        );
        let mut threads: Vec<ThreadSummary> = self.link.client().get(&path).await?;
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
        let path = format!("/v1/threads/{thread_id}/export?since_seq={since}");
        let mut events = Events::default();
        let is_more = match self.link.client().download(&path, &mut events).await {
            Ok(()) => false,
            // There is room for no more.
            Err(ClientError::Unwritten(_)) if events.is_full => true,
            Err(error) => return Err(error.into()),
        };
        let last = events.events.last().and_then(|event| event["seq"].as_u64());
        Ok(data(json!({
            "thread_id": thread_id,
            "events": events.events,
            "next_since": last.unwrap_or(since),
            "more": is_more,
        })))
    }
}

/// Shows a thread as text.
pub(super) fn shown(detail: &ThreadDetail) -> Result<Value, Refusal> {
    let mut shown = Vec::new();
    threads::show(detail, &mut shown)?;
    let shown = String::from_utf8_lossy(&shown);
    Ok(texts(&[&end(shown.trim_end(), LIMIT)]))
}

/// Takes the events of an export until there are enough.
#[derive(Default)]
struct Events {
    events: Vec<Value>,
    size: usize,
    is_full: bool,
    /// Whether the first line, which has the thread, is over.
    is_after_head: bool,
    /// The beginning of a line whose rest is to come.
    line: Vec<u8>,
}

impl Events {
    fn take(&mut self) -> io::Result<()> {
        let line = std::mem::take(&mut self.line);
        if !std::mem::replace(&mut self.is_after_head, true) {
            return Ok(());
        }
        let event = shortened(serde_json::from_slice(&line)?);
        self.size += event.to_string().len() + 1;
        if self.size > LIMIT {
            self.is_full = true;
            return Err(io::ErrorKind::StorageFull.into());
        }
        self.events.push(event);
        Ok(())
    }
}

impl Write for Events {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
            self.line.extend_from_slice(piece);
            if piece.ends_with(b"\n") {
                self.take()?;
            }
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Keeps what a reader needs of an event.
fn shortened(event: Value) -> Value {
    let event = clean(event);
    let mut kept = json!({});
    for name in ["seq", "event", "turn_id", "item_id", "timestamp", "payload"] {
        if let Some(value) = event.get(name).filter(|value| !value.is_null()) {
            kept[name] = value.clone();
        }
    }
    let payload = kept["payload"].to_string();
    if payload.len() > PAYLOAD {
        kept["payload"] = beginning(&payload, PAYLOAD).into();
    }
    kept
}

/// Cuts a line, and shows that it was cut.
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
                events.write_all(piece).unwrap();
            }
            let expected = json!({ "seq": 2, "event": "x", "payload": { "text": "a\\u{9b}b" } });
            assert_eq!((events.events.len(), &events.events[1]), (2, &expected));
        }
    }

    #[test]
    fn long_events_are_cut_and_many_are_left_out() {
        let mut events = Events::default();
        let text = exported(&"y".repeat(PAYLOAD * 2), 100);
        events.write_all(text.as_bytes()).unwrap_err();
        assert!(events.is_full && events.events.len() > 10 && events.events.len() < 20);
        let payload = events.events[0]["payload"].as_str().unwrap();
        assert!(payload.contains("bytes more are left out"), "{payload}");
    }
}
