//! The records of a thread in pages, as they are stored.

use std::collections::VecDeque;
use std::io;
use std::ops::ControlFlow;
use std::sync::Arc;

use serde::Serialize;
use windlass_core::events::{Event, EventData};
use windlass_core::items::{Change, ItemStatus, ItemStep, change};
use windlass_protocol::operations::{CommaList, RecordsQuery};
use windlass_protocol::{PrunedRecords, Record, RecordPage};
use windlass_store::{Journal, StreamKey};

use crate::ids;
use crate::operations::prelude::*;

/// Default and maximum number of records per page.
const DEFAULT_LIMIT: usize = 200;
const MAX_LIMIT: usize = 1_000;
/// Maximum number of records that one request reads.
const MAX_READ: usize = 4_096;
/// A page ends after the record with which its content has this many bytes.
const MAX_BYTES: u64 = 1024 * 1024;
/// Records per read, and approximate bytes per read.
const READ: usize = 256;
const READ_BYTES: usize = 256 * 1024;
/// Maximum length of a summary in characters.
const SUMMARY_CHARS: usize = 280;

/// Lists the records after a number, or the newest ones before a number.
impl Handle<op::ListRecords> for Service {
    async fn handle(&self, _: &RequestContext, call: Call<op::ListRecords>) -> Result<RecordPage> {
        let query = call.query;
        if query.after.is_some() && query.before.is_some() {
            let text = "a page begins either `after` a record or ends `before` one";
            return Err(ApiError::query(text));
        }
        let found = self.find(&call.path.id).await?;
        let head = found.row.seq;
        let mut reader = PageReader {
            journal: self.runtime.journal(),
            key: found.id.into(),
            head,
            limit: limit(query.limit, DEFAULT_LIMIT, MAX_LIMIT),
            selection: Selection::read(&query),
            read: 0,
            bytes: 0,
            pruned: Vec::new(),
        };
        match query.after {
            Some(after) => reader.forward(after).await,
            None => {
                let before = query.before.unwrap_or(u64::MAX);
                reader.backward(before.min(head.saturating_add(1))).await
            }
        }
    }
}

/// The records that a request selects, and their form.
struct Selection {
    kinds: Option<Vec<String>>,
    is_outline: bool,
}

impl Selection {
    fn read(query: &RecordsQuery) -> Self {
        let kinds = query.kinds.clone();
        Self {
            kinds: kinds.map(|CommaList(kinds)| kinds),
            is_outline: query.outline == Some(true),
        }
    }

    fn includes(&self, event: &Event) -> bool {
        let is_of = |kind: &String| match kind.strip_suffix('*') {
            Some(prefix) => event.event_type.starts_with(prefix),
            None => event.event_type == *kind,
        };
        self.kinds
            .as_ref()
            .is_none_or(|kinds| kinds.iter().any(is_of))
    }
}

/// Reads one page.
struct PageReader {
    journal: Arc<dyn Journal>,
    key: StreamKey,
    head: u64,
    limit: usize,
    selection: Selection,
    /// Number of records that were read, and bytes of the content of the page.
    read: usize,
    bytes: u64,
    pruned: Vec<PrunedRecords>,
}

impl PageReader {
    /// Visits the records between two numbers, the second one included. Returns the number up to which all were visited.
    async fn visit(
        &mut self,
        mut after: u64,
        last: u64,
        mut each: impl FnMut(&mut Self, &Event) -> ControlFlow<()>,
    ) -> Result<u64> {
        while after < last {
            let left = usize::try_from(last - after).unwrap_or(usize::MAX);
            let page = self
                .journal
                .read_within(&self.key, after, READ.min(left), READ_BYTES);
            let page = page.await?;
            let gaps = page.pruned.iter().map(|gap| PrunedRecords {
                first: (*gap.start()).max(after + 1),
                last: (*gap.end()).min(last),
            });
            self.pruned.extend(gaps.filter(|gap| gap.first <= gap.last));
            let before = after;
            for event in page.events.iter().take_while(|event| event.seq() <= last) {
                after = event.seq();
                self.read += 1;
                if each(self, event).is_break() {
                    return Ok(after);
                }
            }
            let is_over = page.events.last().is_none_or(|event| event.seq() > last);
            if is_over || after == before {
                return Ok(last);
            }
        }
        Ok(after)
    }

    async fn forward(&mut self, after: u64) -> Result<RecordPage> {
        let mut records = Vec::new();
        let head = self.head;
        let reached = self.visit(after, head, |page, event| {
            let record = page.record(event);
            page.bytes += record.as_ref().map_or(0, content_bytes);
            records.extend(record);
            let is_full = records.len() >= page.limit || page.bytes >= MAX_BYTES;
            if is_full || page.read >= MAX_READ {
                ControlFlow::Break(())
            } else {
                ControlFlow::Continue(())
            }
        });
        let reached = reached.await?;
        Ok(RecordPage {
            before: (after > 0).then_some(after.min(head).saturating_add(1)),
            after: (reached < head).then_some(reached),
            ..self.page(records)
        })
    }

    /// Reads windows of records from the end. A page with much content contains the records next to `before`.
    async fn backward(&mut self, before: u64) -> Result<RecordPage> {
        let mut newest_first: Vec<Record> = Vec::new();
        let mut last = before.saturating_sub(1);
        while last > 0
            && newest_first.len() < self.limit
            && self.bytes < MAX_BYTES
            && self.read < MAX_READ
        {
            let left = self.limit - newest_first.len();
            let span = if self.selection.kinds.is_some() {
                READ
            } else {
                left.min(READ)
            };
            let mut window = Window::new(last.saturating_sub(span as u64));
            let newer_gaps = std::mem::take(&mut self.pruned);
            self.visit(window.first, last, |page, event| {
                window.add(page.record(event));
                ControlFlow::Continue(())
            })
            .await?;
            self.pruned.extend(newer_gaps);
            // A window without records costs a read too.
            self.read += 1;
            let Window { first, records, .. } = window;
            last = first;
            for record in records.into_iter().rev() {
                if newest_first.len() == self.limit || self.bytes >= MAX_BYTES {
                    // The next page begins with it.
                    last = record.seq;
                    break;
                }
                self.bytes += content_bytes(&record);
                newest_first.push(record);
            }
        }
        newest_first.reverse();
        self.pruned.retain(|gap| gap.last > last);
        let next = before.saturating_sub(1);
        Ok(RecordPage {
            before: (last > 0).then_some(last + 1),
            after: (next < self.head).then_some(next),
            ..self.page(newest_first)
        })
    }

    fn is_outline(&self) -> bool {
        self.selection.is_outline
    }

    fn page(&mut self, records: Vec<Record>) -> RecordPage {
        RecordPage {
            records,
            latest_seq: self.head,
            pruned: std::mem::take(&mut self.pruned),
            before: None,
            after: None,
        }
    }

    /// Converts a record, if it is selected.
    fn record(&self, event: &Event) -> Option<Record> {
        if !self.selection.includes(event) {
            return None;
        }
        let shown = change(event);
        let item = match &shown {
            Some(Change::Item(ItemStep::Started(item) | ItemStep::Ended(item))) => Some(item),
            _ => None,
        };
        let redacted = is_answer(event, item.is_some_and(|item| is_private(item)));
        let bytes = size(&event.data);
        let with_data = !redacted && !self.is_outline();
        let data = with_data.then(|| serde_json::to_value(&event.data).ok());
        Some(Record {
            seq: event.seq(),
            kind: event.event_type.clone(),
            at: ids::time(event.ts),
            turn_id: event.context.turn_id.map(|id| id.to_string()),
            item_id: item_id(shown.as_ref()),
            step_id: event.context.exec_id.map(|id| id.to_string()),
            summary: one_line(&summary(event, shown.as_ref())),
            failed: has_failed(&event.data, item.map(|item| item.status)),
            bytes,
            data: data.flatten(),
            redacted,
        })
    }
}

/// The newest records between two numbers, as many as a page can contain.
struct Window {
    /// All later records are in the window.
    first: u64,
    records: VecDeque<Record>,
    bytes: u64,
}

impl Window {
    fn new(first: u64) -> Self {
        Self {
            first,
            records: VecDeque::new(),
            bytes: 0,
        }
    }

    fn add(&mut self, record: Option<Record>) {
        let Some(record) = record else {
            return;
        };
        self.bytes += content_bytes(&record);
        self.records.push_back(record);
        while self.bytes > MAX_BYTES && self.records.len() > 1 {
            if let Some(dropped) = self.records.pop_front() {
                self.bytes -= content_bytes(&dropped);
                self.first = dropped.seq;
            }
        }
    }
}

/// Returns the size of the content that a record has in its page.
fn content_bytes(record: &Record) -> u64 {
    record.data.as_ref().map_or(0, |_| record.bytes)
}

fn is_private(item: &windlass_core::items::Item<'_>) -> bool {
    item.tool().is_some_and(|tool| tool.is_private)
}

/// Returns whether a record contains the user's answer to a question, which event streams do not show either.
fn is_answer(event: &Event, is_private: bool) -> bool {
    is_private || matches!(event.data, EventData::UserInputAnswered(_))
}

fn item_id(shown: Option<&Change<'_>>) -> Option<String> {
    match shown? {
        Change::Item(ItemStep::Started(item) | ItemStep::Ended(item)) => Some(item.id.to_string()),
        Change::Item(ItemStep::Delta { item_id, .. }) => Some(item_id.to_string()),
        Change::Wait(wait) => Some(wait.item_id.to_string()),
        Change::TurnSteered { item_id, .. } | Change::OutputRejected { item_id, .. } => {
            Some(item_id.to_string())
        }
        _ => None,
    }
}

fn has_failed(data: &EventData, item: Option<ItemStatus>) -> bool {
    match data {
        EventData::TurnFailed(_) => true,
        EventData::LlmGeneration(data) => !data.metadata.success,
        _ => item == Some(ItemStatus::Failed),
    }
}

fn summary(event: &Event, shown: Option<&Change<'_>>) -> String {
    match shown {
        Some(Change::Item(ItemStep::Started(item) | ItemStep::Ended(item))) => {
            return item.summary().into_owned();
        }
        Some(Change::Item(ItemStep::Delta { delta, .. })) => return (*delta).to_owned(),
        Some(Change::TurnStarted(turn)) => return turn.outline.input_summary.clone(),
        Some(Change::TurnEnded(turn)) => return turn.error.clone().unwrap_or_default(),
        Some(Change::TurnSteered { input, .. }) => return input.unwrap_or_default().to_owned(),
        Some(Change::OutputRejected { errors, .. }) => return errors.join("; "),
        _ => {}
    }
    match &event.data {
        EventData::LlmGeneration(data) => {
            let metadata = &data.metadata;
            let error = metadata.error.as_deref().unwrap_or_default();
            let tokens = metadata
                .usage
                .as_ref()
                .map(|usage| format!("{} in, {} out", usage.input_tokens, usage.output_tokens));
            format!("{} {} {error}", metadata.model, tokens.unwrap_or_default())
        }
        EventData::ApprovalRequired(data) => {
            let name = data.display_name.as_ref().unwrap_or(&data.tool_call.name);
            format!("{name} {}", data.tool_call.arguments)
        }
        EventData::ApprovalDecided(data) => match &data.reason {
            Some(reason) => format!("{:?}: {reason}", data.decision).to_lowercase(),
            None => format!("{:?}", data.decision).to_lowercase(),
        },
        EventData::SubagentStarted(data) => data.name.clone(),
        EventData::SubagentCompleted(data) => data.name.clone(),
        _ => String::new(),
    }
}

/// Writes a text in one line, with few characters.
fn one_line(text: &str) -> String {
    let line = text.chars().take(4 * SUMMARY_CHARS);
    let line: String = line.map(|c| if c.is_control() { ' ' } else { c }).collect();
    let words: Vec<&str> = line.split_whitespace().collect();
    words.join(" ").chars().take(SUMMARY_CHARS).collect()
}

/// Returns the number of bytes of a value as JSON.
fn size(value: &impl Serialize) -> u64 {
    struct Counter(u64);
    impl io::Write for Counter {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0 += bytes.len() as u64;
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let mut counter = Counter(0);
    // Values of the journal were read from JSON.
    let _ = serde_json::to_writer(&mut counter, value);
    counter.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn summary_is_one_short_line() {
        assert_eq!(one_line("a\n\tb\u{1b}[0m  c"), "a b [0m c");
        assert_eq!(one_line(&"x ".repeat(5_000)).chars().count(), SUMMARY_CHARS);
        assert_eq!(one_line("\u{7}"), "");
    }

    #[test]
    fn size_is_that_of_the_json_text() {
        let value = serde_json::json!({"a": "ä\"\n", "b": [1, 2.5, null]});
        assert_eq!(size(&value), value.to_string().len() as u64);
    }
}
