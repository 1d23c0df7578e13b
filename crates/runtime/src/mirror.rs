//! Copies of recorded events and messages for the embedder's own stores.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use windlass_core::error::AgentLoopError;
use windlass_core::events::{Event, EventRequest};
use windlass_core::history::History;
use windlass_core::message::Message;
use windlass_core::typed_id::SessionId;

use crate::backends::{EventBus, RuntimeMessageStore};
use crate::panics::call_store;
use windlass_core::Clock;
use windlass_core::lock::lock;

/// Maximum time a thread waits for the copies of one commit.
const PATIENCE: Duration = Duration::from_secs(1);
/// How long an unresponsive store is skipped.
const PAUSE: TimeDelta = TimeDelta::seconds(30);

/// The embedder's own stores, which get copies after the commit. They are never read: one that fails, panics or hangs falls behind, but no data is
/// lost and no thread waits for it for long.
pub(crate) struct Mirror {
    messages: Option<Arc<dyn RuntimeMessageStore>>,
    events: Option<Arc<dyn EventBus>>,
    paused_until: Mutex<Option<DateTime<Utc>>>,
}

impl Mirror {
    pub(crate) fn new(
        messages: Option<Arc<dyn RuntimeMessageStore>>,
        events: Option<Arc<dyn EventBus>>,
    ) -> Self {
        Self {
            messages,
            events,
            paused_until: Mutex::default(),
        }
    }

    /// Copies what a commit added to a session: its events, and the messages from an index on.
    pub(crate) async fn copy(
        &self,
        clock: &dyn Clock,
        session_id: SessionId,
        (history, messages_before): (&History, usize),
        events: &[Arc<Event>],
    ) {
        if (self.messages.is_none() && self.events.is_none()) || self.is_paused(clock.now()) {
            return;
        }
        let copying = async {
            self.copy_messages(session_id, history, messages_before)
                .await;
            self.copy_events(session_id, events).await;
        };
        tokio::select! {
            () = copying => {}
            () = clock.sleep(PATIENCE) => {
                *lock(&self.paused_until) = Some(clock.now() + PAUSE);
                tracing::warn!(
                    session = %session_id,
                    "the embedder's store does not answer; it gets no copies for {} s",
                    PAUSE.num_seconds()
                );
            }
        }
    }

    async fn copy_messages(&self, session_id: SessionId, history: &History, from: usize) {
        let Some(store) = &self.messages else { return };
        for message in history.page(from, history.len()) {
            let copying = store.store_message(session_id, Message::clone(message));
            if let Err(error) = call_store(copying).await {
                warn(session_id, "a message", &error);
            }
        }
    }

    async fn copy_events(&self, session_id: SessionId, events: &[Arc<Event>]) {
        let Some(bus) = &self.events else { return };
        for event in events {
            if let Err(error) = call_store(bus.emit(request_of(event))).await {
                warn(session_id, "an event", &error);
            }
        }
    }

    fn is_paused(&self, now: DateTime<Utc>) -> bool {
        lock(&self.paused_until).is_some_and(|until| now < until)
    }
}

fn warn(session_id: SessionId, what: &str, error: &AgentLoopError) {
    tracing::warn!(session = %session_id, %error, "{what} could not be copied to the embedder's store");
}

fn request_of(event: &Event) -> EventRequest {
    EventRequest {
        event_type: event.event_type.clone(),
        ts: event.ts,
        session_id: event.session_id,
        context: event.context.clone(),
        data: event.data.clone(),
        metadata: event.metadata.clone(),
        tags: event.tags.clone(),
    }
}
