//! Server-sent events: frames, comments, and the task that feeds one reader from the journal.

use std::pin::Pin;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::http::{HeaderValue, Response, header};
use futures_core::Stream;
use serde::Serialize;
use tokio::sync::mpsc;
use tokio::time::Instant;
use windlass_core::typed_id::SessionId;
use windlass_protocol::RuntimeEventEnvelope;
use windlass_runtime::EventStream;

use crate::app::{Place, Shared};
use crate::view::{self, Include};

/// How long a stream may be silent.
const KEEPALIVE: Duration = Duration::from_secs(15);
/// How many frames wait for a slow reader; the rest stays in the journal.
const FRAMES: usize = 32;
/// How far behind a reader is when it is told so.
const LAG: u64 = 1_000;

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

/// Makes the frame of an event; `before` are lines that it begins with.
fn numbered(before: &str, event: &RuntimeEventEnvelope) -> Bytes {
    let data = serde_json::to_string(event).unwrap_or_else(|_| "{}".to_owned());
    let (seq, name) = (event.seq, &event.event);
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

/// A reader of a thread's events.
pub(crate) struct Reader {
    pub(crate) app: Shared,
    pub(crate) session_id: SessionId,
    pub(crate) events: EventStream,
    pub(crate) include: Include,
    /// The number of the frame before.
    pub(crate) previous: u64,
    /// The number of the newest record when the reader came.
    pub(crate) head: u64,
    /// What to say first.
    pub(crate) opening: Vec<Bytes>,
    pub(crate) place: Place,
}

impl Reader {
    /// Sends until the reader leaves, the thread is gone or the server stops.
    pub(crate) async fn feed(mut self, frames: mpsc::Sender<Bytes>) {
        let app = Shared::clone(&self.app);
        let stopping = app.stopping.clone();
        tokio::select! {
            () = self.send_all(&frames) => {}
            () = frames.closed() => {}
            () = stopping.cancelled() => {
                let _ = frames.try_send(comment("shutdown"));
            }
        }
        drop(self.place);
    }

    async fn send_all(&mut self, frames: &mpsc::Sender<Bytes>) {
        for frame in std::mem::take(&mut self.opening) {
            if frames.send(frame).await.is_err() {
                return;
            }
        }
        let mut replaying = true;
        let mut seen = self.previous;
        let mut told_lag = None;
        let mut retry = RETRY;
        loop {
            if replaying && seen >= self.head {
                replaying = false;
                let text = format!("caught-up {}", self.head);
                if frames.send(comment(&text)).await.is_err() {
                    return;
                }
            }
            let next = tokio::time::timeout(KEEPALIVE, self.events.next());
            let event = match next.await {
                Ok(Some(event)) => event,
                Ok(None) => return,
                Err(_) => {
                    if frames.send(comment("keepalive")).await.is_err() {
                        return;
                    }
                    continue;
                }
            };
            seen = seen.max(event.seq());
            if seen.is_multiple_of(256) && self.lags(seen, &mut told_lag).await {
                let behind = self.head - seen;
                if frames
                    .send(comment(&format!("lag {behind}")))
                    .await
                    .is_err()
                {
                    return;
                }
            }
            let Some(mut shown) = view::view(&event, self.include) else {
                continue;
            };
            shown.link(self.previous);
            self.previous = shown.seq;
            if frames
                .send(numbered(std::mem::take(&mut retry), &shown))
                .await
                .is_err()
            {
                return;
            }
            self.app.counters.frames.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Tells whether the reader should hear that it is behind: at most once a second.
    async fn lags(&mut self, seen: u64, told: &mut Option<Instant>) -> bool {
        if told.is_some_and(|told| told.elapsed() < Duration::from_secs(1)) {
            return false;
        }
        if let Ok(head) = self.app.runtime.latest_sequence(self.session_id).await {
            self.head = self.head.max(head);
        }
        let lags = self.head.saturating_sub(seen) > LAG;
        if lags {
            *told = Some(Instant::now());
        }
        lags
    }
}
