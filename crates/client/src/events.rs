//! Event streams that survive their connection.

use std::collections::BTreeSet;
use std::io;
use std::pin::Pin;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use http_body_util::BodyExt;
use hyper::body::Incoming;
use serde::de::DeserializeOwned;
use tokio::time::{Instant, Sleep};
use windlass_protocol::api::{Call, CallError, CallFuture, Parts, ResponseStream};
use windlass_protocol::fleet::FleetRunEvent;
use windlass_protocol::operations::{Endpoint, StreamEvents, StreamFleetEvents};
use windlass_protocol::{ErrorCode, EventPayload, RuntimeEventEnvelope};

use crate::backoff::Backoff;
use crate::client::{Client, broken};
use crate::sse::{SseLine, SseLines};

/// The server sends a comment after 15 seconds without events, so a connection that is silent for longer than this is dead.
const MAX_SILENCE: Duration = Duration::from_secs(60);
/// The number of unknown names that are reported; a server that sends more gets no further reports.
const MAX_UNKNOWN: usize = 64;

/// An event stream that another request can continue.
pub(crate) trait ResumableStream:
    Endpoint<Path: Clone, Query: Clone, Request = (), Response = ResponseStream<Self::Event>> + Clone
{
    type Event: DeserializeOwned + Send + 'static;
    /// The code of a refusal after the streamed thread or run was removed.
    const REMOVED: ErrorCode;
    /// Whether the server ends the stream after a last event.
    const HAS_LAST_EVENT: bool;

    /// Accepts an event with the JSON that it was read from.
    fn accept(event: &mut Self::Event, json: Vec<u8>);

    /// Changes the request so that it continues after an event.
    fn continue_after(call: &mut Call<Self>, event: &Self::Event);

    /// Changes the request so that it continues after the last recorded event, which may not be one of this stream.
    fn caught_up(call: &mut Call<Self>, seq: u64);
}

impl ResumableStream for StreamEvents {
    type Event = RuntimeEventEnvelope;
    const REMOVED: ErrorCode = ErrorCode::ThreadNotFound;
    const HAS_LAST_EVENT: bool = false;

    fn accept(event: &mut Self::Event, json: Vec<u8>) {
        if let EventPayload::Unknown(unknown) = &event.payload
            && UNKNOWN_NAMES.is_new(&unknown.name)
        {
            let name = &unknown.name;
            tracing::warn!(?name, "the server sends events that this version skips");
        }
        event.received = String::from_utf8(json).ok().map(Into::into);
    }

    fn continue_after(call: &mut Call<Self>, event: &Self::Event) {
        Self::caught_up(call, event.seq);
    }

    fn caught_up(call: &mut Call<Self>, seq: u64) {
        call.query.since_seq = Some(seq);
        // It selects among the events that were recorded before the stream began.
        call.query.replay_limit = None;
    }
}

impl ResumableStream for StreamFleetEvents {
    type Event = FleetRunEvent;
    const REMOVED: ErrorCode = ErrorCode::FleetRunNotFound;
    const HAS_LAST_EVENT: bool = true;

    fn accept(_: &mut Self::Event, _: Vec<u8>) {}

    fn continue_after(call: &mut Call<Self>, event: &Self::Event) {
        call.query.after = Some(event.cursor.clone());
    }

    fn caught_up(_: &mut Call<Self>, _: u64) {}
}

/// The events of a thread or a fleet run, over as many connections as it takes.
///
/// Dropping the future of `next` loses nothing: all progress, also that of a reconnect, is in this value.
pub(crate) struct Events<E: ResumableStream> {
    client: Client,
    /// The request that continues after the last event.
    call: Call<E>,
    state: StreamState,
    /// The connections since one delivered something.
    attempts: u32,
}

enum StreamState {
    Open(Box<OpenStream>),
    Reopening(Pin<Box<dyn Future<Output = Result<Incoming, CallError>> + Send>>),
    Ended,
}

/// A connection that delivers events.
struct OpenStream {
    body: Incoming,
    lines: SseLines,
    silence: Pin<Box<Sleep>>,
    has_event: bool,
    /// Whether the daemon announced that it shuts down.
    is_shutdown: bool,
}

impl OpenStream {
    fn new(body: Incoming) -> Self {
        Self {
            body,
            lines: SseLines::default(),
            silence: Box::pin(tokio::time::sleep(MAX_SILENCE)),
            has_event: false,
            is_shutdown: false,
        }
    }

    /// Reads more of the body; `false` at its end.
    async fn read(&mut self) -> Result<bool, CallError> {
        let frame = tokio::select! {
            frame = self.body.frame() => frame,
            () = &mut self.silence => {
                let silent = io::Error::new(io::ErrorKind::TimedOut, "the event stream is silent");
                return Err(CallError::Broken(silent.into()));
            }
        };
        self.silence.as_mut().reset(Instant::now() + MAX_SILENCE);
        match frame {
            None => Ok(false),
            Some(frame) => {
                if let Ok(part) = frame.map_err(broken)?.into_data() {
                    self.lines.push(&part);
                }
                Ok(true)
            }
        }
    }
}

impl<E: ResumableStream> Parts<E::Event> for Events<E> {
    fn next(&mut self) -> CallFuture<'_, Option<E::Event>> {
        Box::pin(self.advance())
    }
}

impl<E: ResumableStream> Events<E> {
    pub(crate) fn new(client: Client, call: Call<E>, body: Incoming) -> Self {
        Self {
            client,
            call,
            state: StreamState::Open(Box::new(OpenStream::new(body))),
            attempts: 0,
        }
    }

    async fn advance(&mut self) -> Result<Option<E::Event>, CallError> {
        loop {
            match &mut self.state {
                StreamState::Ended => return Ok(None),
                StreamState::Reopening(reopening) => {
                    let reopened = reopening.await;
                    self.state = StreamState::Ended;
                    match reopened {
                        Ok(body) => self.state = StreamState::Open(Box::new(OpenStream::new(body))),
                        Err(error) if error.code() == Some(E::REMOVED) => {}
                        Err(error) => return Err(error),
                    }
                }
                StreamState::Open(open) => {
                    let Some(line) = open.lines.next() else {
                        match open.read().await {
                            Ok(true) => {}
                            Ok(false) => self.close(Ok(()))?,
                            Err(error) => self.close(Err(error))?,
                        }
                        continue;
                    };
                    self.attempts = 0;
                    match line {
                        SseLine::Data(json) => {
                            open.has_event = true;
                            return self.event(json).map(Some);
                        }
                        SseLine::Comment(text) => {
                            open.is_shutdown |= text == b"shutdown";
                            if let Some(seq) = caught_up(&text) {
                                E::caught_up(&mut self.call, seq);
                            }
                        }
                    }
                }
            }
        }
    }

    fn event(&mut self, json: Vec<u8>) -> Result<E::Event, CallError> {
        let mut event = serde_json::from_slice(&json)?;
        E::continue_after(&mut self.call, &event);
        E::accept(&mut event, json);
        Ok(event)
    }

    /// Ends the connection, and begins to reconnect unless the stream is over.
    fn close(&mut self, closed: Result<(), CallError>) -> Result<(), CallError> {
        let StreamState::Open(open) = std::mem::replace(&mut self.state, StreamState::Ended) else {
            return closed;
        };
        let Some(backoff) = self.client.reconnect else {
            return closed;
        };
        // A daemon that shuts down closes its streams in the same way as after a last event. A second request distinguishes
        // them: it delivers the rest, or ends without any event.
        let is_over = E::HAS_LAST_EVENT && closed.is_ok() && !open.has_event && !open.is_shutdown;
        if !is_over {
            let (client, call) = (self.client.clone(), self.call.clone());
            let reopening = reopen(client, call, backoff, self.attempts);
            self.state = StreamState::Reopening(Box::pin(reopening));
            self.attempts = self.attempts.saturating_add(1);
        }
        Ok(())
    }
}

/// Sends a request until the daemon accepts or refuses it.
async fn reopen<E: ResumableStream>(
    client: Client,
    call: Call<E>,
    backoff: Backoff,
    mut attempt: u32,
) -> Result<Incoming, CallError> {
    loop {
        tokio::time::sleep(backoff.pause(attempt)).await;
        match tokio::time::timeout(MAX_SILENCE, client.send(&call)).await {
            Ok(Ok(response)) => return Ok(response.into_body()),
            Ok(Err(error)) if !is_temporary(&error) => return Err(error),
            _ => attempt = attempt.saturating_add(1),
        }
    }
}

/// Returns whether the same request may succeed later.
fn is_temporary(error: &CallError) -> bool {
    let status = match error {
        CallError::Refused(body) => body.error.status,
        CallError::Status { status, .. } => *status,
        _ => return error.is_lost(),
    };
    matches!(status, 408 | 429 | 502 | 503 | 504)
}

/// Reads the number in the comment after the recorded events.
fn caught_up(comment: &[u8]) -> Option<u64> {
    let comment = std::str::from_utf8(comment).ok()?;
    comment.strip_prefix("caught-up ")?.parse().ok()
}

static UNKNOWN_NAMES: UnknownNames = UnknownNames(Mutex::new(BTreeSet::new()));

/// The names of unknown events that were reported.
struct UnknownNames(Mutex<BTreeSet<String>>);

impl UnknownNames {
    /// Adds a name; returns whether it is to be reported.
    fn is_new(&self, name: &str) -> bool {
        let mut names = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        names.len() < MAX_UNKNOWN && names.insert(name.to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_name_is_reported_once() {
        let names = UnknownNames(Mutex::default());
        assert!(names.is_new("thread.renamed"));
        assert!(!names.is_new("thread.renamed"));
        assert!(names.is_new("thread.moved"));
        for number in 2..MAX_UNKNOWN {
            assert!(names.is_new(&number.to_string()));
        }
        assert!(!names.is_new("one too many"));
    }
}
