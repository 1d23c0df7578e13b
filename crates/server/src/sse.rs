//! Server-sent events: frames, comments, and the task that feeds one reader.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::http::{HeaderValue, Response, header};
use futures_core::Stream;
use futures_util::StreamExt;
use tokio::sync::{Semaphore, mpsc};
use tokio_util::sync::CancellationToken;

use crate::http::outflow::Outflow;
use windlass_service::PIECE_BYTES;
use windlass_service::{FollowedEvent, Follower, Heard};

/// How many pieces wait for a connection; how many bytes, its [`Outflow`] says.
const FRAMES: usize = 32;
/// How long an event is held for a reader that takes its pieces, and for how many readers at once. It saves reading the event
/// again for each piece.
const HOLD: Duration = Duration::from_millis(50);
static HOLDERS: Semaphore = Semaphore::const_new(8);
/// Tells a browser when to come back. It goes with the first event, because some readers take each frame for one.
const RETRY: &str = "retry: 1000\n";

pub(crate) fn comment(text: &str) -> Bytes {
    Bytes::from(format!(": {text}\n\n"))
}

/// Frames on their way to a reader.
pub(crate) struct Frames(mpsc::Receiver<Bytes>);

impl Stream for Frames {
    type Item = Result<Bytes, std::convert::Infallible>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.0.poll_recv(cx).map(|frame| frame.map(Ok))
    }
}

/// Gives frames to the connection of a reader, as fast as the connection writes them.
pub(crate) struct FrameSender {
    frames: mpsc::Sender<Bytes>,
    outflow: Outflow,
}

/// The reader is gone, or what it was to get is.
pub(crate) struct Gone;

impl FrameSender {
    /// Sends a frame. Most frames are one chunk of the response.
    pub(crate) async fn send(&self, mut frame: Bytes) -> Result<(), Gone> {
        while !frame.is_empty() {
            let piece = frame.split_to(frame.len().min(PIECE_BYTES));
            self.outflow.room().await;
            self.pass(piece).await?;
        }
        Ok(())
    }

    /// Sends an event. A reader that does not take the pieces of a long one holds nothing of it.
    async fn send_event(&self, event: FollowedEvent, before: &str) -> Result<(), Gone> {
        let (seq, name) = (event.seq(), event.name());
        let head = format!("{before}id: {seq}\nevent: {name}\ndata: ");
        let mut text = event.text(head, "\n\n").ok_or(Gone)?;
        let may_hold = HOLDERS.try_acquire();
        loop {
            self.pass(text.next().await.ok_or(Gone)?).await?;
            if text.is_done() {
                return Ok(());
            }
            let room = self.outflow.room();
            if may_hold.is_err() || tokio::time::timeout(HOLD, room).await.is_err() {
                text.release();
                self.outflow.room().await;
            }
        }
    }

    async fn pass(&self, piece: Bytes) -> Result<(), Gone> {
        self.outflow.add(piece.len());
        self.frames.send(piece).await.map_err(|_| Gone)
    }
}

/// Makes the two ends of a stream of frames.
pub(crate) fn channel(outflow: Outflow) -> (FrameSender, Response<Body>) {
    let (frames, receiver) = mpsc::channel(FRAMES);
    let mut response = Response::new(Body::from_stream(Frames(receiver)));
    let headers = response.headers_mut();
    let media = HeaderValue::from_static("text/event-stream");
    headers.insert(header::CONTENT_TYPE, media);
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    // Proxies that collect an answer before they pass it on would hold events back.
    headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
    (FrameSender { frames, outflow }, response)
}

/// Responds with frames. The stream ends with them, with the server, or when the client's token is revoked.
pub(crate) fn stream(
    outflow: Outflow,
    stopping: CancellationToken,
    revoked: CancellationToken,
    frames: impl Stream<Item = Vec<u8>> + Send + 'static,
) -> Response<Body> {
    let (sender, response) = channel(outflow);
    tokio::spawn(async move {
        let sending = async {
            let mut frames = std::pin::pin!(frames);
            while let Some(frame) = frames.next().await {
                sender.send(frame.into()).await?;
            }
            Ok(())
        };
        // Also while the reader takes nothing.
        tokio::select! {
            () = until_stopped(&sender, &stopping, sending) => {}
            () = revoked.cancelled() => {}
        }
    });
    response
}

/// Sends frames until there are no more, the reader leaves, or the server stops, which it is told.
async fn until_stopped(
    sender: &FrameSender,
    stopping: &CancellationToken,
    sending: impl Future<Output = Result<(), Gone>>,
) {
    tokio::select! {
        _ = sending => {}
        () = sender.frames.closed() => {}
        () = stopping.cancelled() => {
            let _ = sender.frames.try_send(comment("shutdown"));
        }
    }
}

/// Sends what a follower hears.
pub(crate) async fn feed(mut follower: Follower, sender: FrameSender, stopping: CancellationToken) {
    let revoked = follower.revoked();
    let sending = async {
        let mut retry = RETRY;
        loop {
            // Before the next event is read: one that waits here holds nothing.
            sender.outflow.room().await;
            let Some(heard) = follower.hear().await else {
                return Ok(());
            };
            let notice = match heard {
                Heard::Event(event) => {
                    sender.send_event(event, std::mem::take(&mut retry)).await?;
                    continue;
                }
                Heard::PastEnd { since, head } => {
                    format!("cursor {since} is past the end, following from {head}")
                }
                Heard::Pruned { first, last } => format!("pruned {first}-{last}"),
                Heard::CaughtUp(head) => format!("caught-up {head}"),
                Heard::Behind(records) => format!("lag {records}"),
                Heard::Quiet => "keepalive".to_owned(),
            };
            sender.send(comment(&notice)).await?;
        }
    };
    // Also while the reader takes nothing.
    tokio::select! {
        () = until_stopped(&sender, &stopping, sending) => {}
        () = revoked.cancelled() => {}
    }
}
