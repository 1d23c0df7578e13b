//! The events of a thread, also over the end of a daemon: the next one goes on where that one was.

use std::sync::Arc;

use anyhow::Result;
use windlass_client::{ClientError, Events};
use windlass_protocol::{RuntimeEventEnvelope, Thread};

use crate::reach::{Link, explained};

/// Follows a thread.
pub(crate) struct Follower {
    link: Arc<Link>,
    thread_id: String,
    events: Events,
    /// The number of the last event that was seen.
    seen: u64,
}

impl Follower {
    /// Follows a thread from the event after a number on.
    pub(crate) async fn after(link: &Arc<Link>, thread_id: &str, seen: u64) -> Result<Self> {
        let events = link.client().events(thread_id, seen).await;
        Ok(Self {
            link: Arc::clone(link),
            thread_id: thread_id.to_owned(),
            events: events.map_err(explained)?,
            seen,
        })
    }

    /// Returns the next event. Where the daemon is gone, another one is reached, and the turn that it left open goes on.
    pub(crate) async fn next(&mut self) -> Result<RuntimeEventEnvelope> {
        loop {
            match self.events.next().await {
                Ok(Some(event)) => {
                    self.seen = event.seq;
                    return Ok(event);
                }
                Ok(None) => self.reach_again().await?,
                Err(error) if error.is_lost() => self.reach_again().await?,
                Err(error) => return Err(explained(error)),
            }
        }
    }

    async fn reach_again(&mut self) -> Result<()> {
        self.link.again().await?;
        let client = self.link.client();
        resume(&self.link, &self.thread_id).await?;
        let events = client.events(&self.thread_id, self.seen).await;
        self.events = events.map_err(explained)?;
        Ok(())
    }
}

/// Looks a thread up, and lets a turn that an earlier process left open go on.
pub(crate) async fn resume(link: &Link, thread_id: &str) -> Result<Thread> {
    let path = format!("/v1/threads/{thread_id}/resume");
    let resumed: Result<Thread, ClientError> =
        link.client().post(&path, &serde_json::json!({})).await;
    resumed.map_err(explained)
}
