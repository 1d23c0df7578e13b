//! Reading events: all, by page, or as a stream.

use std::collections::VecDeque;
use std::ops::RangeInclusive;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use futures_core::Stream;
use tokio::sync::watch;
use windlass_core::error::{AgentLoopError, Result};
use windlass_core::events::{Event, EventData, JournalPrunedData};
use windlass_core::typed_id::SessionId;
use windlass_store::journal::all_events;
use windlass_store::{JournalError, Page, StreamKey};

use super::InProcessRuntime;
use crate::errors::from_journal;
use crate::inner::Inner;

/// Number of events, and approximately of stored bytes, per page; a stalled reader holds no more.
const PAGE: usize = 256;
const PAGE_BYTES: usize = 64 * 1024;
/// Pause of a subscription before it reads an unavailable journal again.
const READ_AGAIN: Duration = Duration::from_millis(250);

impl InProcessRuntime {
    /// Returns the events of all sessions in the order in which they were recorded. Events that a fork shares are listed with its parent.
    pub async fn events(&self) -> Result<Vec<Event>> {
        let journal = &*self.inner.backends.journal;
        let events = all_events(journal).await.map_err(from_journal)?;
        Ok(events.iter().map(|event| Event::clone(event)).collect())
    }

    /// Returns all events of a session, shared.
    pub async fn events_for(&self, session_id: SessionId) -> Result<Vec<Arc<Event>>> {
        self.events_since(session_id, 0, usize::MAX).await
    }

    /// Returns at most `limit` events of a session after a sequence number. The cost depends only on the number of events returned, and no session is
    /// loaded into memory.
    pub async fn events_since(
        &self,
        session_id: SessionId,
        sequence: u64,
        limit: usize,
    ) -> Result<Vec<Arc<Event>>> {
        let key = StreamKey::from(session_id);
        let backends = &self.inner.backends;
        let page = backends.journal.read(&key, sequence, limit).await;
        let page = page.map_err(from_journal)?;
        // A session with events exists; one without any may exist, too.
        if page.head == 0 && !backends.session_store.has_session(session_id).await? {
            return Err(AgentLoopError::SessionNotFound(session_id));
        }
        Ok(page.events)
    }

    /// Returns the sequence number of the newest event of a session; 0 if there is none.
    pub async fn latest_sequence(&self, session_id: SessionId) -> Result<u64> {
        self.inner.slot(session_id).await?;
        let key = StreamKey::from(session_id);
        let journal = &self.inner.backends.journal;
        let page = journal.read(&key, u64::MAX, 0).await;
        Ok(page.map_err(from_journal)?.head)
    }

    /// Streams the future events of a session as they are recorded.
    ///
    /// ```
    /// # use windlass_core::llmsim_driver::LlmSimConfig;
    /// # use windlass_runtime::InProcessRuntimeBuilder;
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
    /// # let runtime = InProcessRuntimeBuilder::new()
    /// #     .llm_sim(LlmSimConfig::fixed("Hello!"))
    /// #     .single_session(|session| session.agent("greeter", "You greet people."))
    /// #     .build()
    /// #     .await?;
    /// # let session = runtime.default_session_id().expect("single_session makes one");
    /// let mut events = runtime.subscribe(session).await?;
    /// runtime.run_text_turn(session, "Hi").await?;
    /// let first = events.next().await.expect("the session is there");
    /// assert_eq!((first.event_type.as_str(), first.seq()), ("turn.started", 1));
    /// # Ok::<(), windlass_core::AgentLoopError>(())
    /// # }).unwrap();
    /// ```
    pub async fn subscribe(&self, session_id: SessionId) -> Result<EventStream> {
        let head = self.latest_sequence(session_id).await?;
        self.subscribe_after(session_id, head).await
    }

    /// Streams the events of a session after a sequence number: first the recorded ones, then new ones.
    pub async fn subscribe_after(
        &self,
        session_id: SessionId,
        sequence: u64,
    ) -> Result<EventStream> {
        self.inner.slot(session_id).await?;
        let key = StreamKey::from(session_id);
        let head = self
            .inner
            .backends
            .journal
            .watch(&key)
            .await
            .map_err(from_journal)?;
        Ok(EventStream {
            state: State::Ready(Box::new(Cursor {
                inner: Arc::clone(&self.inner),
                session_id,
                key,
                after: sequence,
                head,
                page: VecDeque::new(),
            })),
        })
    }
}

/// The events of a session, read from the journal at the reader's own pace: a slow reader falls behind and loses nothing. Events that retention has
/// removed appear as one `journal.pruned` event with the range. While the journal is unavailable, the stream waits. It ends when the session is
/// removed, or at a damaged record.
pub struct EventStream {
    state: State,
}

type EventFuture = Pin<Box<dyn Future<Output = (Box<Cursor>, Option<Arc<Event>>)> + Send>>;

enum State {
    Ready(Box<Cursor>),
    Reading(EventFuture),
    Ended,
}

struct Cursor {
    inner: Arc<Inner>,
    session_id: SessionId,
    key: StreamKey,
    after: u64,
    head: watch::Receiver<u64>,
    page: VecDeque<Arc<Event>>,
}

impl EventStream {
    /// Waits for the next event; `None` if the session was removed.
    pub async fn next(&mut self) -> Option<Arc<Event>> {
        std::future::poll_fn(|cx| Pin::new(&mut *self).poll_next(cx)).await
    }
}

impl Stream for EventStream {
    type Item = Arc<Event>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        loop {
            match std::mem::replace(&mut self.state, State::Ended) {
                State::Ended => return Poll::Ready(None),
                State::Ready(mut cursor) => {
                    if let Some(event) = cursor.page.pop_front() {
                        self.state = State::Ready(cursor);
                        return Poll::Ready(Some(event));
                    }
                    self.state = State::Reading(Box::pin(cursor.read_more()));
                }
                State::Reading(mut reading) => {
                    let polled = reading.as_mut().poll(cx);
                    if polled.is_pending() {
                        self.state = State::Reading(reading);
                    }
                    let (cursor, event) = ready!(polled);
                    if event.is_some() {
                        self.state = State::Ready(cursor);
                    }
                    return Poll::Ready(event);
                }
            }
        }
    }
}

impl Cursor {
    /// Reads the next page, waiting for it if necessary, and returns its first event.
    async fn read_more(mut self: Box<Self>) -> (Box<Self>, Option<Arc<Event>>) {
        let journal = Arc::clone(&self.inner.backends.journal);
        loop {
            self.head.borrow_and_update();
            let page = journal.read_within(&self.key, self.after, PAGE, PAGE_BYTES);
            let Page { pruned, events, .. } = match page.await {
                Ok(page) => page,
                Err(JournalError::Unavailable(cause)) => {
                    tracing::warn!(session = %self.session_id, cause, "events cannot be read now; trying again");
                    self.inner.clock.sleep(READ_AGAIN).await;
                    continue;
                }
                Err(JournalError::Removed(_)) => return (self, None),
                Err(error) => {
                    tracing::error!(session = %self.session_id, %error, "a subscription ends");
                    return (self, None);
                }
            };
            let mut gaps = pruned.into_iter().peekable();
            for event in events {
                while let Some(gap) = gaps.next_if(|gap| *gap.end() < event.seq()) {
                    self.page.push_back(Arc::new(self.gap(&gap)));
                }
                self.after = event.seq();
                self.page.push_back(event);
            }
            for gap in gaps {
                self.after = *gap.end();
                self.page.push_back(Arc::new(self.gap(&gap)));
            }
            if let Some(event) = self.page.pop_front() {
                return (self, Some(event));
            }
            if self.head.changed().await.is_err() {
                return (self, None);
            }
        }
    }

    /// The event that replaces events which retention has removed. It is not in the journal and has no sequence number.
    fn gap(&self, range: &RangeInclusive<u64>) -> Event {
        let data = EventData::JournalPruned(JournalPrunedData {
            first_sequence: *range.start(),
            last_sequence: *range.end(),
            digest: None,
        });
        self.inner.event(self.session_id, data)
    }
}
