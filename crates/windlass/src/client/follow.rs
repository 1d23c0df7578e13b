//! Follows the events of a thread across daemons: when a daemon ends, the stream continues at the next one.

use std::sync::Arc;

use anyhow::Result;
use uuid::Uuid;
use windlass_protocol::operations::{Endpoint, EventsQuery};
use windlass_protocol::{
    Call, CallError, CallFuture, ResponseStream, RuntimeApi, RuntimeEventEnvelope, StartTurn,
    ThreadAndTurn,
};

use crate::client::calls::{by_id, resume};
use crate::client::connect::DaemonConnection;

/// The events of a thread. The stream does not reconnect automatically: the next daemon may be an in-process one, which has to resume the turn.
pub(crate) struct EventFollower {
    daemon: Arc<DaemonConnection>,
    thread_id: String,
    events: ResponseStream<RuntimeEventEnvelope>,
    /// The number of the last received event.
    seen: u64,
}

/// The next step of the stream.
pub(crate) enum FollowStep {
    Event(Box<RuntimeEventEnvelope>),
    /// The daemon is gone.
    Lost,
}

impl EventFollower {
    /// Follows a thread, starting after event `seen`.
    pub(crate) async fn after(
        daemon: &Arc<DaemonConnection>,
        thread_id: &str,
        seen: u64,
    ) -> Result<Self> {
        Ok(Self {
            daemon: Arc::clone(daemon),
            thread_id: thread_id.to_owned(),
            events: open(&*daemon.api(), thread_id, seen).await?,
            seen,
        })
    }

    /// Returns the next event. This method is cancel safe.
    pub(crate) async fn next(&mut self) -> Result<FollowStep> {
        match self.events.next().await {
            Ok(Some(event)) => {
                self.seen = event.seq;
                Ok(FollowStep::Event(Box::new(event)))
            }
            Ok(None) => Ok(FollowStep::Lost),
            Err(error) if error.is_lost() => Ok(FollowStep::Lost),
            Err(error) => Err(error.into()),
        }
    }

    /// Connects to another daemon after the current one is gone, and resumes the open turn. It takes a while, so do not call it in a `select!` branch
    /// that another branch can cancel.
    pub(crate) async fn reconnect(&mut self) -> Result<()> {
        loop {
            self.daemon.reconnect().await?;
            match self.resume().await {
                Err(error) if error.is_lost() => {}
                reopened => return Ok(reopened?),
            }
        }
    }

    async fn resume(&mut self) -> Result<(), CallError> {
        resume(&*self.daemon.api(), &self.thread_id).await?;
        self.reopen().await
    }

    /// Follows the thread at the current daemon without resuming open turns.
    pub(crate) async fn reopen(&mut self) -> Result<(), CallError> {
        self.events = open(&*self.daemon.api(), &self.thread_id, self.seen).await?;
        Ok(())
    }
}

async fn open(
    api: &dyn RuntimeApi,
    thread_id: &str,
    seen: u64,
) -> Result<ResponseStream<RuntimeEventEnvelope>, CallError> {
    let query = EventsQuery {
        since_seq: Some(seen),
        ..EventsQuery::default()
    };
    let call = Call::new(by_id(thread_id), ()).with_query(query);
    api.stream_events(call).await
}

/// Starts a turn exactly once: if the daemon is lost before its response, the next one gets the same request.
pub(crate) async fn start_turn(
    daemon: &DaemonConnection,
    thread_id: &str,
    turn: StartTurn,
) -> Result<Result<ThreadAndTurn, CallError>> {
    let call = Call::new(by_id(thread_id), turn);
    send_once(daemon, call, |api, call| api.start_turn(call)).await
}

/// Sends a request that takes effect once: if the daemon is lost before its response, the next one gets the same request.
pub(crate) async fn send_once<E: Endpoint>(
    daemon: &DaemonConnection,
    call: Call<E>,
    send: impl for<'a> Fn(&'a dyn RuntimeApi, Call<E>) -> CallFuture<'a, E::Response>,
) -> Result<Result<E::Response, CallError>>
where
    Call<E>: Clone,
{
    let call = call.with_key(Uuid::new_v4().to_string());
    loop {
        match send(&*daemon.api(), call.clone()).await {
            Err(error) if error.is_lost() => daemon.reconnect().await?,
            response => return Ok(response),
        }
    }
}
