//! The events of a thread, also over the end of a daemon: the next one goes on where that one was.

use std::sync::Arc;

use anyhow::Result;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use uuid::Uuid;
use windlass_client::{ClientError, Events};
use windlass_protocol::{RuntimeEventEnvelope, Thread, ThreadAndTurn};

use crate::reach::{Link, explained};

/// Follows a thread.
pub(crate) struct Follower {
    link: Arc<Link>,
    thread_id: String,
    events: Events,
    /// The number of the last event that was seen.
    seen: u64,
}

/// What comes next.
pub(crate) enum Next {
    Event(Box<RuntimeEventEnvelope>),
    /// The daemon is gone.
    Lost,
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

    /// Returns what comes next. Whoever stops waiting for it misses nothing.
    pub(crate) async fn next(&mut self) -> Result<Next> {
        match self.events.next().await {
            Ok(Some(event)) => {
                self.seen = event.seq;
                Ok(Next::Event(Box::new(event)))
            }
            Ok(None) => Ok(Next::Lost),
            Err(error) if error.is_lost() => Ok(Next::Lost),
            Err(error) => Err(explained(error)),
        }
    }

    /// Reaches another daemon, because that one is gone, and lets the turn that it left open go on. It takes a while, so it does not belong
    /// where something else ends the wait.
    pub(crate) async fn reach_again(&mut self) -> Result<()> {
        loop {
            self.link.again().await?;
            match self.go_on().await {
                Err(error) if error.is_lost() => {}
                reached => return reached.map_err(explained),
            }
        }
    }

    async fn go_on(&mut self) -> Result<(), ClientError> {
        resume(&self.link, &self.thread_id).await?;
        self.follow_again().await
    }

    /// Follows what another daemon tells, and leaves turns that are open alone.
    pub(crate) async fn follow_again(&mut self) -> Result<(), ClientError> {
        self.events = self
            .link
            .client()
            .events(&self.thread_id, self.seen)
            .await?;
        Ok(())
    }
}

/// Begins a turn, once: where the daemon is gone before its answer, the next one is asked for the same turn.
pub(crate) async fn begin_turn(
    link: &Link,
    thread_id: &str,
    wanted: &Value,
) -> Result<Result<ThreadAndTurn, ClientError>> {
    post_once(link, &format!("/v1/threads/{thread_id}/turns"), wanted).await
}

/// Asks for something, once: where the daemon is gone before its answer, the next one is asked for the same.
pub(crate) async fn post_once<T: DeserializeOwned>(
    link: &Link,
    path: &str,
    wanted: &impl Serialize,
) -> Result<Result<T, ClientError>> {
    let key = Uuid::new_v4().to_string();
    loop {
        match link.client().post_once(path, wanted, &key).await {
            Err(error) if error.is_lost() => link.again().await?,
            started => return Ok(started),
        }
    }
}

/// Looks a thread up, and lets a turn that an earlier process left open go on.
pub(crate) async fn resume(link: &Link, thread_id: &str) -> Result<Thread, ClientError> {
    let path = format!("/v1/threads/{thread_id}/resume");
    link.client().post(&path, &serde_json::json!({})).await
}
