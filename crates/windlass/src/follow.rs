//! The events of a thread, also over the end of a daemon: the next one goes on where that one was.

use std::sync::Arc;

use anyhow::Result;
use tokio::task::JoinHandle;
use windlass_client::{ClientError, Events};
use windlass_protocol::{RuntimeEventEnvelope, Thread};

use crate::reach::{Link, explained};

/// Follows a thread.
pub(crate) struct Follower {
    link: Arc<Link>,
    thread_id: String,
    source: Source,
    /// The number of the last event that was seen.
    seen: u64,
}

/// Where the next event comes from.
enum Source {
    Open(Events),
    /// Another daemon, which is being reached. It is a task of its own, because whoever waits for an event may stop waiting at any time, and a
    /// daemon that is brought up in part would be in the way of the next.
    Reaching(JoinHandle<Result<Events>>),
}

impl Follower {
    /// Follows a thread from the event after a number on.
    pub(crate) async fn after(link: &Arc<Link>, thread_id: &str, seen: u64) -> Result<Self> {
        let events = link.client().events(thread_id, seen).await;
        Ok(Self {
            link: Arc::clone(link),
            thread_id: thread_id.to_owned(),
            source: Source::Open(events.map_err(explained)?),
            seen,
        })
    }

    /// Returns the next event. Where the daemon is gone, another one is reached, and the turn that it left open goes on.
    pub(crate) async fn next(&mut self) -> Result<RuntimeEventEnvelope> {
        loop {
            let events = match &mut self.source {
                Source::Open(events) => events,
                Source::Reaching(task) => {
                    let events = task.await??;
                    self.source = Source::Open(events);
                    continue;
                }
            };
            match events.next().await {
                Ok(Some(event)) => {
                    self.seen = event.seq;
                    return Ok(event);
                }
                Err(error) if !error.is_lost() => return Err(explained(error)),
                Ok(None) | Err(_) => {
                    let link = Arc::clone(&self.link);
                    let reached = reached_again(link, self.thread_id.clone(), self.seen);
                    self.source = Source::Reaching(tokio::spawn(reached));
                }
            }
        }
    }
}

async fn reached_again(link: Arc<Link>, thread_id: String, seen: u64) -> Result<Events> {
    link.again().await?;
    resume(&link, &thread_id).await?;
    let events = link.client().events(&thread_id, seen).await;
    events.map_err(explained)
}

/// Looks a thread up, and lets a turn that an earlier process left open go on.
pub(crate) async fn resume(link: &Link, thread_id: &str) -> Result<Thread> {
    let path = format!("/v1/threads/{thread_id}/resume");
    let resumed: Result<Thread, ClientError> =
        link.client().post(&path, &serde_json::json!({})).await;
    resumed.map_err(explained)
}
