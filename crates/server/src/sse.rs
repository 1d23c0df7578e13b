//! Server-sent events: frames, comments, and the task that feeds one reader.

use std::convert::Infallible;
use std::future::Future;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::http::{HeaderValue, Response, header};
use futures_core::Stream;
use futures_util::StreamExt;
use futures_util::stream::poll_fn;
use tokio::sync::{Semaphore, mpsc};
use tokio_util::sync::CancellationToken;
use windlass_service::{FRAME_END, FollowItem, FollowedEvent, Follower, PIECE_BYTES, frame_head};

use crate::http::outflow::Outflow;

/// Maximum number of pieces queued for a connection; [`Outflow`] limits their bytes.
const QUEUED_PIECES: usize = 32;
/// How long an event stays in memory for a reader that takes its pieces, and for how many readers at once. It avoids reading the event again for each
/// piece.
const HOLD_TIME: Duration = Duration::from_millis(50);
static HOLDERS: Semaphore = Semaphore::const_new(8);
/// Reconnection delay for browsers. Sent with the first event, because some readers treat each frame as an event.
const RETRY: &str = "retry: 1000\n";

pub(crate) fn comment(text: &str) -> Bytes {
    Bytes::from(format!(": {text}\n\n"))
}

/// Sends frames to a reader's connection as fast as the connection writes them.
pub(crate) struct FrameSender {
    frames: mpsc::Sender<Bytes>,
    outflow: Outflow,
}

/// The reader disconnected, or the event is no longer stored.
pub(crate) struct Gone;

impl FrameSender {
    /// Sends a frame. Most frames are one chunk of the response.
    pub(crate) async fn send(&self, mut frame: Bytes) -> Result<(), Gone> {
        while !frame.is_empty() {
            let piece = frame.split_to(frame.len().min(PIECE_BYTES));
            self.outflow.writable().await;
            self.queue(piece).await?;
        }
        Ok(())
    }

    /// Sends an event. A reader that does not take the pieces of a long event occupies no memory for it.
    async fn send_event(&self, event: FollowedEvent, prefix: &str) -> Result<(), Gone> {
        let (seq, name) = (event.seq(), event.name());
        let head = frame_head(Some(&seq.to_string()), name);
        let mut text = event
            .text(prefix.to_owned() + &head, FRAME_END)
            .ok_or(Gone)?;
        let may_hold = HOLDERS.try_acquire();
        loop {
            self.queue(text.next().await.ok_or(Gone)?).await?;
            if text.is_done() {
                return Ok(());
            }
            let writable = self.outflow.writable();
            if may_hold.is_err() || tokio::time::timeout(HOLD_TIME, writable).await.is_err() {
                text.release();
                self.outflow.writable().await;
            }
        }
    }

    async fn queue(&self, piece: Bytes) -> Result<(), Gone> {
        self.outflow.add(piece.len());
        self.frames.send(piece).await.map_err(|_| Gone)
    }
}

/// Creates the two ends of a stream of frames.
pub(crate) fn channel(outflow: Outflow) -> (FrameSender, Response<Body>) {
    let (frames, mut receiver) = mpsc::channel(QUEUED_PIECES);
    let body = poll_fn(move |cx| receiver.poll_recv(cx)).map(Ok::<_, Infallible>);
    let mut response = Response::new(Body::from_stream(body));
    let headers = response.headers_mut();
    let media = HeaderValue::from_static("text/event-stream");
    headers.insert(header::CONTENT_TYPE, media);
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    // Proxies that buffer responses would delay events.
    headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
    (FrameSender { frames, outflow }, response)
}

/// Responds with a stream of frames. It ends with the frames, the server, or the revocation of the client's token.
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
        // Applies even while the reader accepts nothing.
        tokio::select! {
            () = until_stopped(&sender, &stopping, sending) => {}
            () = revoked.cancelled() => {}
        }
    });
    response
}

/// Sends frames until they end, the reader disconnects, or the server stops. The reader is notified of a stop.
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

/// Sends the events of a follower.
pub(crate) async fn feed(mut follower: Follower, sender: FrameSender, stopping: CancellationToken) {
    let revoked = follower.revoked();
    let sending = async {
        let mut retry = RETRY;
        loop {
            // Waits before it reads the next event, so that a waiting reader holds no event.
            sender.outflow.writable().await;
            let Some(item) = follower.next_item().await else {
                return Ok(());
            };
            let notice = match item {
                FollowItem::Event(event) => {
                    sender.send_event(event, std::mem::take(&mut retry)).await?;
                    continue;
                }
                FollowItem::PastEnd { since, head } => {
                    format!("cursor {since} is past the end, following from {head}")
                }
                FollowItem::Pruned { first, last } => format!("pruned {first}-{last}"),
                FollowItem::CaughtUp(head) => format!("caught-up {head}"),
                FollowItem::Behind(records) => format!("lag {records}"),
                FollowItem::Quiet => "keepalive".to_owned(),
            };
            sender.send(comment(&notice)).await?;
        }
    };
    // Applies even while the reader accepts nothing.
    tokio::select! {
        () = until_stopped(&sender, &stopping, sending) => {}
        () = revoked.cancelled() => {}
    }
}
