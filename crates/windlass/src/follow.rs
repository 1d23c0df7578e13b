//! The events of a thread, also beyond the end of a daemon: the next one continues where that one ended.

use std::sync::Arc;

use anyhow::Result;
use uuid::Uuid;
use windlass_protocol::operations::{Endpoint, EventsQuery};
use windlass_protocol::{
    Call, CallError, CallFuture, RuntimeApi, RuntimeEventEnvelope, StartTurn, Stream, ThreadAndTurn,
};

use crate::calls::{by_id, resume};
use crate::reach::{Link, explained};

/// Follows a thread.
///
/// The stream does not reconnect by itself: the next daemon may be one inside this process, and has to resume the turn.
pub(crate) struct Follower {
    link: Arc<Link>,
    thread_id: String,
    events: Stream<RuntimeEventEnvelope>,
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
        let events = open(&*link.api(), thread_id, seen).await;
        Ok(Self {
            link: Arc::clone(link),
            thread_id: thread_id.to_owned(),
            events: events.map_err(explained)?,
            seen,
        })
    }

    /// Returns what comes next. Dropping the future loses nothing.
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

    /// Reaches another daemon, because that one is gone, and resumes the turn that it left open. It takes a while, so it does
    /// not belong where something else ends the wait.
    pub(crate) async fn reach_again(&mut self) -> Result<()> {
        loop {
            self.link.again().await?;
            match self.resume().await {
                Err(error) if error.is_lost() => {}
                reached => return reached.map_err(explained),
            }
        }
    }

    async fn resume(&mut self) -> Result<(), CallError> {
        resume(&*self.link.api(), &self.thread_id).await?;
        self.follow_again().await
    }

    /// Follows the thread at another daemon, and leaves open turns alone.
    pub(crate) async fn follow_again(&mut self) -> Result<(), CallError> {
        self.events = open(&*self.link.api(), &self.thread_id, self.seen).await?;
        Ok(())
    }
}

async fn open(
    api: &dyn RuntimeApi,
    thread_id: &str,
    seen: u64,
) -> Result<Stream<RuntimeEventEnvelope>, CallError> {
    let query = EventsQuery {
        since_seq: Some(seen),
        ..EventsQuery::default()
    };
    let call = Call::new(by_id(thread_id), ()).with_query(query);
    api.stream_events(call).await
}

/// Starts a turn, once: if the daemon is gone before its response, the next one gets the same request.
pub(crate) async fn start_turn(
    link: &Link,
    thread_id: &str,
    turn: StartTurn,
) -> Result<Result<ThreadAndTurn, CallError>> {
    let call = Call::new(by_id(thread_id), turn);
    once(link, call, |api, call| api.start_turn(call)).await
}

/// Sends a request, once: if the daemon is gone before its response, the next one gets the same request.
pub(crate) async fn once<E: Endpoint>(
    link: &Link,
    call: Call<E>,
    send: impl for<'a> Fn(&'a dyn RuntimeApi, Call<E>) -> CallFuture<'a, E::Response>,
) -> Result<Result<E::Response, CallError>>
where
    Call<E>: Clone,
{
    let call = call.with_key(Uuid::new_v4().to_string());
    loop {
        match send(&*link.api(), call.clone()).await {
            Err(error) if error.is_lost() => link.again().await?,
            response => return Ok(response),
        }
    }
}
