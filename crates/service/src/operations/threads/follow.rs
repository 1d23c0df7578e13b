//! Streams the events of a thread as they are recorded, starting at any number.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use windlass_core::typed_id::{SessionId, TurnId};
use windlass_protocol::RuntimeEventEnvelope;
use windlass_protocol::api::{CallError, CallFuture, Parts, ResponseStream};
use windlass_store::StreamKey;

use crate::fanout::{Cursor, CursorStep, EventText, Fanout, WireRecord};
use crate::limits::subscribers::Subscriber;
use crate::operations::prelude::*;
use crate::threads::FoundThread;
use crate::view::{self, Include};

/// Maximum number of records per read when reading backwards, and their approximate size in bytes.
const PAGE: u64 = 256;
const PAGE_BYTES: usize = 128 * 1024;
/// Interval after which an idle follower gets a keep-alive.
const QUIET: Duration = Duration::from_secs(15);
/// Maximum number of recorded events that a client may request.
const MAX_REPLAY: usize = 4096;
/// Number of records behind the head at which a follower gets a notice.
const LAG: u64 = 1_000;

/// The events of a thread that a client requests.
#[derive(Default)]
pub(crate) struct FollowOptions {
    /// Only events after this number.
    pub(crate) since: u64,
    /// Maximum number of already recorded events.
    pub(crate) newest: Option<usize>,
    /// Events that are sent only on request.
    pub(crate) include: Include,
}

/// One item of a stream of events.
pub enum FollowItem {
    /// The next visible event.
    Event(FollowedEvent),
    /// The requested cursor is past the end; the stream follows from the head.
    PastEnd {
        /// The requested number.
        since: u64,
        /// The newest number.
        head: u64,
    },
    /// Retention has removed the records between the previous item and the next.
    Pruned {
        /// The first removed number.
        first: u64,
        /// The last removed number.
        last: u64,
    },
    /// All events up to this number were sent: the head when the follower connected.
    CaughtUp(u64),
    /// The number of records that the follower is behind the head.
    Behind(u64),
    /// A keep-alive: no event was recorded for 15 seconds.
    Quiet,
}

/// An event, linked to the previous event of the same stream.
pub struct FollowedEvent {
    pub(crate) record: Arc<WireRecord>,
    previous: u64,
    fanout: Arc<Fanout>,
    include: Include,
}

impl FollowedEvent {
    /// Returns the sequence number of the event.
    #[must_use]
    pub fn seq(&self) -> u64 {
        self.record.seq
    }

    /// Returns the name of the event, such as `turn.completed`.
    #[must_use]
    pub fn name(&self) -> &str {
        let shown = self.record.shown.as_ref();
        shown.map_or("", |shown| &shown.name)
    }

    /// Deserializes the event, for a client in this process.
    fn envelope(&self) -> Result<RuntimeEventEnvelope, CallError> {
        let shown = self.record.shown.as_ref();
        let json = shown.map(|shown| [&shown.json[..], b"}"].concat());
        let mut envelope: RuntimeEventEnvelope = serde_json::from_slice(&json.unwrap_or_default())?;
        envelope.previous_seq = Some(self.previous);
        Ok(envelope)
    }

    /// Serializes the event between `head` and `tail`, linked to the previous event.
    pub fn text(self, head: String, tail: &str) -> Option<EventText> {
        let name = RuntimeEventEnvelope::PREVIOUS_SEQ;
        let tail = format!(",\"{name}\":{}}}{tail}", self.previous);
        EventText::new(self.fanout, self.include, self.record, head, tail)
    }
}

/// A reader of a thread. It has a cursor but buffers no events: each is read on demand.
pub struct Follower {
    app: Service,
    session_id: SessionId,
    cursor: Cursor,
    /// The number of the previous event that was sent.
    previous: u64,
    /// The newest number that was read.
    read: u64,
    /// The number of the newest record when the follower connected.
    head: u64,
    past_end: Option<u64>,
    is_replaying: bool,
    lag_reported: Option<Instant>,
    /// The turn of the newest record that was read.
    turn: Option<TurnId>,
    /// Removed records before the next one that were not reported yet.
    pruned: Option<(u64, u64)>,
    subscriber: Subscriber,
}

impl Follower {
    /// Waits for the next item; `None` when the thread is removed or the follower's token is revoked.
    pub async fn next_item(&mut self) -> Option<FollowItem> {
        if let Some(since) = self.past_end.take() {
            let head = self.head;
            return Some(FollowItem::PastEnd { since, head });
        }
        loop {
            if self.subscriber.revoked().is_cancelled() {
                return None;
            }
            if self.is_replaying && self.read >= self.head {
                self.is_replaying = false;
                return Some(FollowItem::CaughtUp(self.head));
            }
            let step = tokio::select! {
                biased;
                step = self.cursor.step() => step?,
                () = self.subscriber.revoked().cancelled() => return None,
                () = tokio::time::sleep(QUIET) => return Some(FollowItem::Quiet),
            };
            let record = match step {
                CursorStep::Record(record) => record,
                CursorStep::Pruned { first, last } => {
                    let first = self.pruned.map_or(first, |(first, _)| first);
                    self.pruned = Some((first, last));
                    continue;
                }
            };
            // The record is read again after a notice, and if the caller drops this future.
            self.cursor.after = record.seq - 1;
            if let Some(notice) = self.notice(&record).await {
                return Some(notice);
            }
            self.cursor.after = record.seq;
            if record.shown.is_some() {
                let previous = std::mem::replace(&mut self.previous, record.seq);
                self.app.counters.frames.fetch_add(1, Ordering::Relaxed);
                return Some(FollowItem::Event(FollowedEvent {
                    record,
                    previous,
                    fanout: Arc::clone(&self.cursor.fanout),
                    include: self.cursor.include,
                }));
            }
        }
    }

    /// Returns the notice that must precede a record, if any.
    async fn notice(&mut self, record: &WireRecord) -> Option<FollowItem> {
        let turn = std::mem::replace(&mut self.turn, record.turn_id);
        if let Some((first, last)) = self.pruned.take() {
            // Within a turn, retention removes only text chunks, and a later record contains the complete text.
            let is_within = turn.is_some() && turn == self.turn;
            if !is_within {
                return Some(FollowItem::Pruned { first, last });
            }
        }
        if record.seq > self.read {
            self.read = record.seq;
            if self.read.is_multiple_of(256) && self.lags().await {
                return Some(FollowItem::Behind(self.head - self.read));
            }
        }
        None
    }

    /// Returns a token that is cancelled when the follower's token is revoked.
    #[must_use]
    pub fn revoked(&self) -> CancellationToken {
        self.subscriber.revoked().clone()
    }

    /// Returns whether to report that the follower is behind: at most once per second.
    async fn lags(&mut self) -> bool {
        let reported = self.lag_reported;
        if reported.is_some_and(|at| at.elapsed() < Duration::from_secs(1)) {
            return false;
        }
        if let Ok(head) = self.app.runtime.latest_sequence(self.session_id).await {
            self.head = self.head.max(head);
        }
        let lags = self.head.saturating_sub(self.read) > LAG;
        if lags {
            self.lag_reported = Some(Instant::now());
        }
        lags
    }
}

impl Handle<op::StreamEvents> for Service {
    async fn handle(
        &self,
        ctx: &RequestContext,
        call: Call<op::StreamEvents>,
    ) -> Result<ResponseStream<RuntimeEventEnvelope>> {
        Ok(Box::new(self.follow_call(ctx, call).await?))
    }
}

impl Parts<RuntimeEventEnvelope> for Follower {
    fn next(&mut self) -> CallFuture<'_, Option<RuntimeEventEnvelope>> {
        let stopping = self.app.stopping.clone();
        Box::pin(async move {
            loop {
                let item = stopping.run_until_cancelled(self.next_item()).await;
                match item.flatten() {
                    Some(FollowItem::Event(event)) => return event.envelope().map(Some),
                    Some(_) => {}
                    None => return Ok(None),
                }
            }
        })
    }
}

/// Parses the names of optional events.
pub(crate) fn included(names: Option<&str>) -> Include {
    let names = names.unwrap_or_default();
    let includes = |event| names.split(',').any(|name| name.trim() == event);
    Include {
        tool_output: includes("tool_output"),
        queue: includes("queue"),
    }
}

impl Service {
    /// Starts to follow a thread with the options of a request.
    pub async fn follow_call(
        &self,
        ctx: &RequestContext,
        call: Call<op::StreamEvents>,
    ) -> Result<Follower> {
        let query = call.query;
        let options = FollowOptions {
            since: query.since_seq.unwrap_or(0),
            newest: query.replay_limit.map(saturated),
            include: included(query.include.as_deref()),
        };
        if options.newest.is_some_and(|newest| newest > MAX_REPLAY) {
            return Err(ApiError::query("replay_limit cannot exceed 4096"));
        }
        self.follow(ctx, &call.path.id, options).await
    }

    /// Starts to follow a thread.
    pub(crate) async fn follow(
        &self,
        ctx: &RequestContext,
        id: &str,
        FollowOptions {
            since,
            newest,
            include,
        }: FollowOptions,
    ) -> Result<Follower> {
        let found = self.find(id).await?;
        let subscriber = Subscriber::take(self, &ctx.caller)?;
        let (session_id, head) = (found.id, found.row.seq);
        let (after, previous) = match newest {
            _ if since > head => (head, head),
            Some(newest) => self.replay_start(&found, since, newest, include).await?,
            // Shared turns of a fork are not events of the fork.
            None => (since.max(found.shared()), since),
        };
        let journal = self.runtime.journal();
        let fanout = self.fanouts.join(journal, session_id).await?;
        Ok(Follower {
            app: Service::clone(self),
            session_id,
            cursor: Cursor::new(fanout, include, after),
            previous,
            read: previous,
            head,
            past_end: Some(since).filter(|since| *since > head),
            is_replaying: true,
            lag_reported: None,
            turn: None,
            pruned: None,
            subscriber,
        })
    }

    /// Finds the start for a follower that wants only the newest events. It reads backwards, so the cost depends on the number of events to send and
    /// not on the length of the thread. Returns the number to read from, and that of the newest omitted event.
    async fn replay_start(
        &self,
        found: &FoundThread,
        since: u64,
        newest: usize,
        include: Include,
    ) -> Result<(u64, u64)> {
        let (id, head) = (found.id, found.row.seq);
        let begin = since.max(found.shared());
        let mut left = newest;
        let mut before = head;
        while before > begin {
            let after = before.saturating_sub(PAGE).max(begin);
            let shown = self.shown_between(id, after, before, include).await?;
            for last in shown.into_iter().rev() {
                match left.checked_sub(1) {
                    Some(fewer) => left = fewer,
                    // If no recorded event is requested, hidden records are skipped too.
                    None => return Ok((if newest == 0 { head } else { last }, last)),
                }
            }
            before = after;
        }
        Ok((begin, since))
    }

    /// Returns the numbers of the visible events after one record and up to another.
    async fn shown_between(
        &self,
        id: SessionId,
        mut after: u64,
        last: u64,
        include: Include,
    ) -> Result<Vec<u64>> {
        let (journal, key) = (self.runtime.journal(), StreamKey::from(id));
        let mut shown = Vec::new();
        while after < last {
            let limit = usize::try_from(last - after).unwrap_or(usize::MAX);
            let page = journal.read_within(&key, after, limit, PAGE_BYTES).await?;
            let Some(newest) = page.events.last() else {
                break;
            };
            after = newest.seq();
            let events = page.events.iter().filter(|event| event.seq() <= last);
            let visible = events.filter(|event| view::view(event, include).is_some());
            shown.extend(visible.map(|event| event.seq()));
        }
        Ok(shown)
    }
}
