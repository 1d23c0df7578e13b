//! A thread or one of its turns: a consistent snapshot at one sequence number, serialized while it is read.

use bytes::Bytes;
use serde::Serialize;
use serde_json::Value;
use windlass_core::events::{Event, EventData};
use windlass_core::items::{WaitUpdate, wait_change};
use windlass_core::typed_id::SessionId;
use windlass_protocol::{
    PendingApproval, PendingToolCall, PendingUserInput, ThreadDetail, Turn, TurnDetail,
};
use windlass_runtime::output_value;
use windlass_store::StreamKey;
use windlass_store::queries::{ThreadOutline, TurnRow, WaitRow};

use crate::operations::prelude::*;
use crate::threads::{FoundThread, ItemReader, turn_of};
use crate::{ids, view};

/// Size of a chunk of a response, in bytes.
const CHUNK_BYTES: usize = 16 * 1024;
/// A longer chunk is sent without spare capacity, and its records are released from memory.
const LONG_CHUNK_BYTES: usize = 64 * 1024;
/// Maximum number of records of a thread whose response may be built in memory.
const FEW_RECORDS: u64 = 4_096;

/// The final answer of a turn is among this number of its last records, because one commit ends the answer and the turn.
const LAST_RECORDS: usize = 16;

/// A thread with its newest turns, without their items.
pub(crate) struct OpenThread {
    pub(crate) found: FoundThread,
    /// The turns in the response, oldest first.
    pub(crate) turns: Vec<TurnRow>,
    /// All turns that may wait for input.
    waiting: Vec<TurnRow>,
}

impl OpenThread {
    pub(crate) fn shown_turns(&self) -> impl Iterator<Item = Turn> + '_ {
        let turns = self.turns.iter();
        turns.map(|row| turn_of(self.found.id, row))
    }
}

/// The fields that follow the items of a thread, in the order of [`ThreadDetail`](windlass_protocol::ThreadDetail).
#[derive(Serialize)]
struct AfterItems {
    latest_seq: u64,
    #[serde(flatten)]
    waits: PendingRequests,
}

/// Requests that wait for a client.
#[derive(Default, Serialize)]
pub(crate) struct PendingRequests {
    pub(crate) pending_approvals: Vec<PendingApproval>,
    pub(crate) pending_user_inputs: Vec<PendingUserInput>,
    pub(crate) pending_dynamic_tool_calls: Vec<PendingToolCall>,
}

/// A part of a response.
pub(super) enum DetailPart {
    Text(Vec<u8>),
    Turns(SessionId, std::vec::IntoIter<TurnRow>),
    Items(Box<ItemReader>),
}

/// A response with items. It is written chunk by chunk, and later parts are not read ahead.
pub struct DetailJson {
    parts: std::vec::IntoIter<DetailPart>,
    current: Option<DetailPart>,
    needs_comma: bool,
    /// Number of records of the thread.
    records: u64,
}

impl DetailJson {
    pub(super) fn new(records: u64, parts: Vec<DetailPart>) -> Self {
        Self {
            parts: parts.into_iter(),
            current: None,
            needs_comma: false,
            records,
        }
    }

    /// Writes the next chunk; `None` after the last.
    pub async fn next(&mut self) -> Result<Option<Bytes>> {
        let mut chunk = Vec::new();
        while chunk.len() < CHUNK_BYTES {
            if self.current.is_none() {
                self.current = self.parts.next();
                self.needs_comma = false;
            }
            let wrote = match &mut self.current {
                None => break,
                Some(DetailPart::Text(text)) => {
                    chunk.append(text);
                    false
                }
                Some(DetailPart::Turns(id, rows)) => match rows.next() {
                    Some(row) => push(&mut chunk, &mut self.needs_comma, &turn_of(*id, &row))?,
                    None => false,
                },
                Some(DetailPart::Items(items)) => match items.next().await? {
                    Some(item) => push(&mut chunk, &mut self.needs_comma, &item)?,
                    None => false,
                },
            };
            if !wrote {
                self.current = None;
            }
        }
        if chunk.len() > LONG_CHUNK_BYTES {
            // A slow client may retain the chunk for a while.
            chunk.shrink_to_fit();
            if let Some(DetailPart::Items(items)) = &mut self.current {
                items.release();
            }
        }
        Ok((!chunk.is_empty()).then(|| chunk.into()))
    }

    /// Returns the complete response if its thread has few records and it has at most `max_bytes` bytes, else `None`.
    pub async fn read_short(mut self, max_bytes: usize) -> Result<Option<Vec<u8>>> {
        if self.records > FEW_RECORDS {
            return Ok(None);
        }
        let mut json = Vec::new();
        while let Some(chunk) = self.next().await? {
            json.extend_from_slice(&chunk);
            if json.len() > max_bytes {
                return Ok(None);
            }
        }
        Ok(Some(json))
    }
}

/// Appends an element of a list; returns `true`, because more may follow.
fn push(chunk: &mut Vec<u8>, needs_comma: &mut bool, value: &impl Serialize) -> Result<bool> {
    if std::mem::replace(needs_comma, true) {
        chunk.push(b',');
    }
    serde_json::to_writer(chunk, value).map_err(ApiError::internal)?;
    Ok(true)
}

impl Handle<op::GetThread> for Service {
    async fn handle(&self, _: &RequestContext, call: Call<op::GetThread>) -> Result<ThreadDetail> {
        let newest = call.query.turns.map_or(usize::MAX, saturated);
        let open = self.open_thread_turns(&call.path.id, newest).await?;
        let after = self.after_items(&open).await?;
        let turns = open.shown_turns().collect();
        let read = with_items(open.turns, call.query.items);
        let items = self.read_items(open.found.id, read, after.latest_seq);
        Ok(ThreadDetail {
            thread: open.found.thread,
            turns,
            items: items.collect().await?,
            latest_seq: after.latest_seq,
            pending_approvals: after.waits.pending_approvals,
            pending_user_inputs: after.waits.pending_user_inputs,
            pending_dynamic_tool_calls: after.waits.pending_dynamic_tool_calls,
        })
    }
}

impl Handle<op::GetTurn> for Service {
    async fn handle(&self, _: &RequestContext, call: Call<op::GetTurn>) -> Result<TurnDetail> {
        let (turn, items, output) = self.turn_items(&call.path.id, &call.path.turn_id).await?;
        let items = items.collect().await?;
        Ok(TurnDetail {
            turn,
            items,
            output,
        })
    }
}

impl Service {
    /// Reads a thread with its newest turns.
    pub(crate) async fn open_thread_turns(&self, id: &str, newest: usize) -> Result<OpenThread> {
        let not_found = || ApiError::thread_not_found(id);
        let stream = ids::parse_thread(id).ok_or_else(not_found)?.into();
        // The newest turn is the one that may wait for input.
        let outline = self.queries.thread_outline(&stream, newest.max(1)).await?;
        let ThreadOutline {
            thread, mut turns, ..
        } = outline.ok_or_else(not_found)?;
        let mut found = FoundThread::read(thread).ok_or_else(not_found)?;
        self.check_readable_after(&stream, found.row.seq).await?;
        let waiting = turns.iter().filter(|turn| !turn.waits.is_empty());
        let waiting = waiting.cloned().collect();
        // Pruned turns are not shown.
        turns.retain(|turn| !turn.is_pruned);
        turns.drain(..turns.len().saturating_sub(newest));
        let newest = turns.last().map(|row| turn_of(found.id, row).id);
        found.thread.latest_turn_id = newest.or(found.thread.latest_turn_id);
        Ok(OpenThread {
            found,
            turns,
            waiting,
        })
    }

    /// Fails if the record after `seq` is damaged. Rows end before such a record, so the thread would appear shorter than it is.
    async fn check_readable_after(&self, stream: &StreamKey, seq: u64) -> Result<()> {
        self.runtime.journal().read(stream, seq, 1).await?;
        Ok(())
    }

    /// Serializes a thread with its newest turns.
    pub async fn thread_json(
        &self,
        id: &str,
        newest: usize,
        items: Option<bool>,
    ) -> Result<DetailJson> {
        let open = self.open_thread_turns(id, newest).await?;
        let (session_id, head) = (open.found.id, open.found.row.seq);
        let after = self.after_items(&open).await?;
        let mut after = serde_json::to_vec(&after).map_err(ApiError::internal)?;
        // These fields continue the object that starts with the thread.
        after[0] = b',';
        let read = with_items(open.turns.clone(), items);
        let items = self.read_items(session_id, read, head);
        Ok(DetailJson::new(
            head,
            vec![
                DetailPart::Text(opening("thread", &open.found.thread)?),
                DetailPart::Text(b",\"turns\":[".to_vec()),
                DetailPart::Turns(session_id, open.turns.into_iter()),
                DetailPart::Text(b"],\"items\":[".to_vec()),
                DetailPart::Items(Box::new(items)),
                DetailPart::Text([&b"]"[..], &after].concat()),
            ],
        ))
    }

    async fn turn_items(
        &self,
        id: &str,
        turn_id: &str,
    ) -> Result<(Turn, ItemReader, Option<Value>)> {
        let found = self.find(id).await?;
        let row = match self.find_turn(&found, turn_id).await {
            Ok(row) => row,
            Err(error) if error.code() == ErrorCode::TurnNotFound => {
                let turn = self.find_queued_turn(&found, turn_id).await?;
                // A queued turn has neither a row nor items.
                let items = self.read_items(found.id, Vec::new(), found.row.seq);
                return Ok((turn.ok_or(error)?, items, None));
            }
            Err(error) => return Err(error),
        };
        if row.is_pruned {
            return Err(ApiError::turn_not_found());
        }
        let (turn, head) = (turn_of(found.id, &row), found.row.seq.max(row.seq));
        self.check_readable_after(&found.id.into(), head).await?;
        let output = self.output_of(&found, &row).await?;
        Ok((turn, self.read_items(found.id, vec![row], head), output))
    }

    /// Reads the JSON value of a turn's final answer, which is recorded as text only.
    async fn output_of(&self, found: &FoundThread, row: &TurnRow) -> Result<Option<Value>> {
        let Some(end) = row.last_seq.filter(|_| view::has_output(&row.view)) else {
            return Ok(None);
        };
        let before = end.saturating_sub(LAST_RECORDS as u64);
        let last = self.runtime.events_since(found.id, before, LAST_RECORDS);
        let last = last.await?;
        let answers = last.iter().rev().filter(|event| event.seq() <= end);
        let mut texts = answers.filter_map(|event| match &event.data {
            EventData::OutputMessageCompleted(data) => data.message.text(),
            _ => None,
        });
        Ok(texts.next().and_then(output_value))
    }

    /// Serializes a turn with its items.
    pub async fn turn_json(&self, id: &str, turn_id: &str) -> Result<DetailJson> {
        let (turn, items, output) = self.turn_items(id, turn_id).await?;
        let mut end = b"]".to_vec();
        if let Some(output) = output {
            end.extend_from_slice(b",\"output\":");
            serde_json::to_writer(&mut end, &output).map_err(ApiError::internal)?;
        }
        end.push(b'}');
        Ok(DetailJson::new(
            items.head(),
            vec![
                DetailPart::Text(opening("turn", &turn)?),
                DetailPart::Text(b",\"items\":[".to_vec()),
                DetailPart::Items(Box::new(items)),
                DetailPart::Text(end),
            ],
        ))
    }

    async fn find_queued_turn(&self, found: &FoundThread, turn_id: &str) -> Result<Option<Turn>> {
        match ids::parse_turn(turn_id) {
            Some(turn_id) => self.queued_turn(found, turn_id).await,
            None => Ok(None),
        }
    }

    async fn after_items(&self, open: &OpenThread) -> Result<AfterItems> {
        let (session_id, head) = (open.found.id, open.found.row.seq);
        let waits = open.waiting.iter().flat_map(|turn| &turn.waits);
        Ok(AfterItems {
            latest_seq: head,
            waits: self.pending_requests(session_id, waits, head).await?,
        })
    }

    /// Reads the requests of open waits of a thread, as of one of its records.
    pub(crate) async fn pending_requests(
        &self,
        session_id: SessionId,
        waits: impl Iterator<Item = &WaitRow>,
        head: u64,
    ) -> Result<PendingRequests> {
        let mut pending = PendingRequests::default();
        let mut records = self.read_items(session_id, Vec::new(), head);
        for wait in waits.filter(|wait| wait.is_open) {
            if let Some(event) = records.event(wait.seq).await? {
                pending.add(&event);
            }
        }
        Ok(pending)
    }
}

impl PendingRequests {
    /// Adds the request of a record that began a wait.
    pub(crate) fn add(&mut self, event: &Event) {
        let Some(change) = wait_change(event) else {
            return;
        };
        match change.wait {
            WaitUpdate::CallRequested(data) => self
                .pending_dynamic_tool_calls
                .extend(view::pending_call(event.session_id, &change, data)),
            WaitUpdate::ApprovalRequired(data) => self
                .pending_approvals
                .push(view::pending_approval(&change, data)),
            WaitUpdate::InputRequired(data) => self
                .pending_user_inputs
                .push(view::pending_input(&change, data)),
            _ => {}
        }
    }
}

/// Returns the turns whose items are read.
fn with_items(turns: Vec<TurnRow>, items: Option<bool>) -> Vec<TurnRow> {
    if items == Some(false) {
        Vec::new()
    } else {
        turns
    }
}

/// Returns the beginning of an object with its first field.
pub(super) fn opening(name: &str, value: &impl Serialize) -> Result<Vec<u8>> {
    let mut text = format!("{{\"{name}\":").into_bytes();
    serde_json::to_writer(&mut text, value).map_err(ApiError::internal)?;
    Ok(text)
}
