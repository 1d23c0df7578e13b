//! The state of a thread after one of its records.
//!
//! Turns that had ended by then are read from their rows. Only the turn that was open is folded again, from its first record. The cost is one row for
//! each earlier turn, for the sums, and the records of the turns in the response.

use serde::Serialize;
use windlass_core::events::TokenUsage;
use windlass_core::typed_id::SessionId;
use windlass_protocol::{ThreadStateAt, operations as wire};
use windlass_store::StreamKey;
use windlass_store::queries::{Order, TurnFold, TurnQuery, TurnRow};

use crate::operations::prelude::*;
use crate::operations::threads::detail::{DetailJson, DetailPart, PendingRequests};
use crate::threads::turn_of;
use crate::view;

/// Default and maximum number of turns.
const DEFAULT_TURNS: usize = 20;
const MAX_TURNS: usize = 200;
/// Rows per query for the sums.
const ROWS: usize = 500;
/// Records per read, and approximate bytes per read.
const PAGE: usize = 256;
const PAGE_BYTES: usize = 128 * 1024;

/// The fields before the turns, in the order of [`ThreadStateAt`].
#[derive(Serialize)]
struct Head {
    at: u64,
    latest_seq: u64,
    turn_count: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    usage: Option<windlass_protocol::TokenUsage>,
}

/// A thread after one of its records, without the items of its turns.
struct StateOutline {
    session_id: SessionId,
    head: Head,
    /// The turns of the response, oldest first.
    turns: Vec<TurnRow>,
    waits: PendingRequests,
}

impl Handle<op::GetThreadState> for Service {
    async fn handle(
        &self,
        _: &RequestContext,
        call: Call<op::GetThreadState>,
    ) -> Result<ThreadStateAt> {
        let with_items = call.query.items != Some(false);
        let state = self.state_outline(&call.path.id, &call.query).await?;
        let turns = state.turns.iter();
        let turns = turns.map(|row| turn_of(state.session_id, row)).collect();
        let read = if with_items { state.turns } else { Vec::new() };
        let items = self.read_items(state.session_id, read, state.head.at);
        Ok(ThreadStateAt {
            at: state.head.at,
            latest_seq: state.head.latest_seq,
            turn_count: state.head.turn_count,
            usage: state.head.usage,
            turns,
            items: items.collect().await?,
            pending_approvals: state.waits.pending_approvals,
            pending_user_inputs: state.waits.pending_user_inputs,
            pending_dynamic_tool_calls: state.waits.pending_dynamic_tool_calls,
        })
    }
}

impl Service {
    /// Serializes the state of a thread after one of its records.
    pub async fn state_json(&self, id: &str, query: &wire::ThreadStateQuery) -> Result<DetailJson> {
        let state = self.state_outline(id, query).await?;
        let mut head = serde_json::to_vec(&state.head).map_err(ApiError::internal)?;
        head.pop();
        head.extend_from_slice(b",\"turns\":[");
        let mut waits = serde_json::to_vec(&state.waits).map_err(ApiError::internal)?;
        // These fields continue the object.
        waits[0] = b',';
        let read = match query.items {
            Some(false) => Vec::new(),
            _ => state.turns.clone(),
        };
        let items = self.read_items(state.session_id, read, state.head.at);
        Ok(DetailJson::new(
            state.head.latest_seq,
            vec![
                DetailPart::Text(head),
                DetailPart::Turns(state.session_id, state.turns.into_iter()),
                DetailPart::Text(b"],\"items\":[".to_vec()),
                DetailPart::Items(Box::new(items)),
                DetailPart::Text([&b"]"[..], &waits].concat()),
            ],
        ))
    }

    async fn state_outline(
        &self,
        id: &str,
        query: &wire::ThreadStateQuery,
    ) -> Result<StateOutline> {
        let found = self.find(id).await?;
        let latest_seq = found.row.seq;
        let at = query.at.unwrap_or(latest_seq).min(latest_seq);
        let newest = query.turns.map_or(DEFAULT_TURNS, saturated).min(MAX_TURNS);
        let mut turns = Vec::new();
        let (mut usage, mut turn_count) = (None::<TokenUsage>, 0);
        let mut waiting = Vec::new();
        let mut after = None;
        loop {
            let rows = self.queries.turns(TurnQuery {
                stream: found.row.stream.clone(),
                order: Order::NewestFirst,
                upto: Some(at),
                after,
                limit: ROWS,
            });
            let rows = rows.await?;
            for row in rows.entries {
                turn_count += 1;
                let row = self.turn_at(&found.row.stream, row, at).await?;
                if let Some(of_turn) = row.view.usage.filter(|_| !row.is_shared) {
                    usage.get_or_insert_default().add(&of_turn);
                }
                waiting.extend(row.waits.iter().filter(|wait| wait.is_open).cloned());
                // Pruned turns are not shown.
                if turns.len() < newest && !row.is_pruned {
                    turns.push(row);
                }
            }
            after = rows.next;
            if after.is_none() {
                break;
            }
        }
        turns.reverse();
        let waits = self.pending_requests(found.id, waiting.iter(), at);
        Ok(StateOutline {
            session_id: found.id,
            waits: waits.await?,
            head: Head {
                at,
                latest_seq,
                turn_count,
                usage: usage.as_ref().map(view::usage),
            },
            turns,
        })
    }

    /// Returns a turn as it was after a record.
    async fn turn_at(&self, stream: &StreamKey, row: TurnRow, at: u64) -> Result<TurnRow> {
        if row.seq <= at || row.is_pruned {
            return Ok(row);
        }
        let journal = self.runtime.journal();
        let mut fold = TurnFold::begin(row.clone());
        let mut after = row.first_seq.saturating_sub(1);
        while after < at {
            let page = journal.read_within(stream, after, PAGE, PAGE_BYTES).await?;
            let Some(last) = page.events.last().map(|event| event.seq()) else {
                break;
            };
            for event in page.events.iter().filter(|event| event.seq() <= at) {
                fold.apply(event);
            }
            after = last;
        }
        Ok(fold.row().unwrap_or(row))
    }
}
