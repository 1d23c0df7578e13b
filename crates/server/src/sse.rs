//! Server-sent events: frames, comments, and the task that feeds one reader.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use axum::body::{Body, Bytes};
use axum::http::{HeaderValue, Response, header};
use futures_core::Stream;
use serde::Serialize;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use windlass_protocol::RuntimeEventEnvelope;

use crate::service::follow::{Follower, Heard};

/// How many frames wait for a slow reader; the rest stays in the journal.
const FRAMES: usize = 32;
/// Tells a browser when to come back. It goes with the first event, because some readers take each frame for one.
const RETRY: &str = "retry: 1000\n";

pub(crate) fn comment(text: &str) -> Bytes {
    Bytes::from(format!(": {text}\n\n"))
}

/// Makes a frame without a number.
pub(crate) fn named(name: &str, data: &impl Serialize) -> Bytes {
    let data = serde_json::to_string(data).unwrap_or_else(|_| "{}".to_owned());
    Bytes::from(format!("event: {name}\ndata: {data}\n\n"))
}

/// Makes a frame that a reader can go on behind.
pub(crate) fn with_id(id: &str, name: &str, data: &impl Serialize) -> Bytes {
    let data = serde_json::to_string(data).unwrap_or_else(|_| "{}".to_owned());
    Bytes::from(format!("id: {id}\nevent: {name}\ndata: {data}\n\n"))
}

/// Makes the frame of an event; `before` are lines that it begins with.
fn numbered(before: &str, event: &RuntimeEventEnvelope) -> Bytes {
    let data = serde_json::to_string(event).unwrap_or_else(|_| "{}".to_owned());
    let (seq, name) = (event.seq, event.payload.name());
    Bytes::from(format!(
        "{before}id: {seq}\nevent: {name}\ndata: {data}\n\n"
    ))
}

/// Frames on their way to a reader.
pub(crate) struct Frames(mpsc::Receiver<Bytes>);

impl Stream for Frames {
    type Item = Result<Bytes, std::convert::Infallible>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.0.poll_recv(cx).map(|frame| frame.map(Ok))
    }
}

/// Makes the two ends of a stream of frames.
pub(crate) fn channel() -> (mpsc::Sender<Bytes>, Response<Body>) {
    let (sender, receiver) = mpsc::channel(FRAMES);
    let mut response = Response::new(Body::from_stream(Frames(receiver)));
    let headers = response.headers_mut();
    let media = HeaderValue::from_static("text/event-stream");
    headers.insert(header::CONTENT_TYPE, media);
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    // Proxies that collect an answer before they pass it on would hold events back.
    headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
    (sender, response)
}

/// Sends frames until there are no more, the reader leaves, or the server stops, which it is told.
pub(crate) async fn until_stopped(
    frames: &mpsc::Sender<Bytes>,
    stopping: &CancellationToken,
    sending: impl Future<Output = ()>,
) {
    tokio::select! {
        () = sending => {}
        () = frames.closed() => {}
        () = stopping.cancelled() => {
            let _ = frames.try_send(comment("shutdown"));
        }
    }
}

/// Sends what a follower hears.
pub(crate) async fn feed(
    mut follower: Follower,
    frames: mpsc::Sender<Bytes>,
    stopping: CancellationToken,
) {
    let revoked = follower.revoked();
    let sending = async {
        let mut retry = RETRY;
        while let Some(heard) = follower.next().await {
            let frame = match heard {
                Heard::Event(event) => numbered(std::mem::take(&mut retry), &event),
                Heard::PastEnd { since, head } => comment(&format!(
                    "cursor {since} is past the end, following from {head}"
                )),
                Heard::Pruned { first, last } => comment(&format!("pruned {first}-{last}")),
                Heard::CaughtUp(head) => comment(&format!("caught-up {head}")),
                Heard::Behind(records) => comment(&format!("lag {records}")),
                Heard::Quiet => comment("keepalive"),
            };
            if frames.send(frame).await.is_err() {
                return;
            }
        }
    };
    // Also while the reader takes nothing.
    tokio::select! {
        () = until_stopped(&frames, &stopping, sending) => {}
        () = revoked.cancelled() => {}
    }
}
