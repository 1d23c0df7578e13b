//! Lists calls and questions that wait for a client, of all threads.

use std::collections::BTreeMap;

use windlass_protocol::Wait;
use windlass_protocol::api::Page;
use windlass_store::StreamKey;
use windlass_store::queries::WaitRow;

use crate::ids;
use crate::operations::prelude::*;
use crate::operations::threads::detail::PendingRequests;
use crate::operations::threads::summary::title_of;
use crate::threads::FoundThread;
use crate::view;

/// Default and maximum number of waits.
const DEFAULT_LIMIT: usize = 50;
const MAX_LIMIT: usize = 200;
/// A page ends after the wait with which its arguments have this many bytes.
const MAX_BYTES: usize = 1024 * 1024;

/// Lists waits by thread, and by the order in which they began. An agent gets those of its own threads.
impl Handle<op::ListWaits> for Service {
    async fn handle(&self, ctx: &RequestContext, call: Call<op::ListWaits>) -> Result<Page<Wait>> {
        let limit = limit(call.query.limit, DEFAULT_LIMIT, MAX_LIMIT);
        let after = call.query.cursor.as_deref().map(Position::read);
        let after = after.transpose()?;
        let rows = self.queries.waits(None).await?.into_iter();
        let mut rows: Vec<_> = rows.map(|row| (Position::of(&row), row)).collect();
        rows.retain(|(position, _)| after.as_ref().is_none_or(|after| position > after));
        rows.sort_unstable_by(|(a, _), (b, _)| a.cmp(b));
        let mut threads = BTreeMap::new();
        let (mut entries, mut bytes, mut last) = (Vec::new(), 0, None);
        let mut rows = rows.into_iter().peekable();
        while entries.len() < limit && bytes < MAX_BYTES {
            let Some((position, row)) = rows.next() else {
                break;
            };
            if let Some(thread) = self.thread_of_wait(ctx, &row.stream, &mut threads).await?
                && let Some(wait) = self.wait(thread, &row).await?
            {
                bytes += wait.approval.as_ref().map_or(0, |it| it.description.len());
                entries.push(wait);
            }
            last = Some(position);
        }
        let next = last.filter(|_| rows.peek().is_some());
        Ok(Page {
            entries,
            next: next.map(|position| position.to_string()),
        })
    }
}

/// The position of a wait in the list.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Position {
    stream: String,
    seq: u64,
}

impl Position {
    fn of(row: &WaitRow) -> Self {
        Self {
            stream: row.stream.to_string(),
            seq: row.seq,
        }
    }

    fn read(cursor: &str) -> Result<Self> {
        let parts = cursor.rsplit_once('.');
        let parts = parts.and_then(|(stream, seq)| Some((stream, seq.parse().ok()?)));
        let (stream, seq) = parts.ok_or_else(|| {
            ApiError::query("`cursor` is not a cursor of this list; begin again without one")
        })?;
        Ok(Self {
            stream: stream.to_owned(),
            seq,
        })
    }
}

impl std::fmt::Display for Position {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}.{}", self.stream, self.seq)
    }
}

impl Service {
    /// Returns the thread of a wait, if the caller may read it.
    async fn thread_of_wait<'a>(
        &self,
        ctx: &RequestContext,
        stream: &StreamKey,
        threads: &'a mut BTreeMap<StreamKey, Option<FoundThread>>,
    ) -> Result<Option<&'a FoundThread>> {
        if !threads.contains_key(stream) {
            let found = match stream.as_str().parse() {
                Ok(id) => self.look_up(id).await?,
                Err(_) => None,
            };
            let agent = ctx.caller.agent();
            let is_readable = |found: &FoundThread| {
                agent.is_none_or(|agent| found.thread.agent.as_deref() == Some(agent))
            };
            threads.insert(stream.clone(), found.filter(is_readable));
        }
        Ok(threads.get(stream).and_then(Option::as_ref))
    }

    /// Reads the request of a wait; `None` if its record is gone.
    async fn wait(&self, thread: &FoundThread, row: &WaitRow) -> Result<Option<Wait>> {
        let before = row.seq.saturating_sub(1);
        let events = self.runtime.events_since(thread.id, before, 1).await?;
        let Some(event) = events.first().filter(|event| event.seq() == row.seq) else {
            return Ok(None);
        };
        let mut pending = PendingRequests::default();
        pending.add(event);
        Ok(Some(Wait {
            thread_id: thread.thread.id.clone(),
            thread_title: title_of(&thread.row, thread.thread.title.clone()),
            turn_id: row.turn_id.to_string(),
            kind: view::wait_kind(row.kind),
            seq: row.seq,
            since: ids::time(event.ts),
            approval: pending.pending_approvals.pop(),
            user_input: pending.pending_user_inputs.pop(),
            tool_call: pending.pending_dynamic_tool_calls.pop(),
        }))
    }
}
