//! One WebSocket: a reader, a worker that handles frames in order, and a writer.
//!
//! Every frame that was read is fully handled, even if the socket closes. A client's close frame is answered at once, while the worker continues.

use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use futures_util::stream::{SplitSink, SplitStream};
use futures_util::{SinkExt, StreamExt};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::sync::{Notify, mpsc};
use tokio::time::{Instant, sleep_until, timeout};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::error::CapacityError;
use tokio_tungstenite::tungstenite::protocol::frame::Frame;
use tokio_tungstenite::tungstenite::protocol::frame::coding::{CloseCode, Data, OpCode};
use tokio_tungstenite::tungstenite::protocol::{CloseFrame, Role, WebSocketConfig};
use tokio_tungstenite::tungstenite::{Error, Message, Utf8Bytes};
use windlass_runs::rpc::{Closing, Connection, FrameAction, Outbox, Outgoing, Queued, TextSource};
use windlass_service::ApiCaller;

use super::Sockets;
use crate::pending_connections::PendingConnection;

/// Maximum number of frames read ahead of the worker.
const READ_AHEAD: usize = 64;
/// Read buffer in bytes. Most messages are shorter, and the buffer is zeroed before each read.
const READ_BYTES: usize = 8 * 1024;
/// Write buffer in bytes.
const WRITE_BYTES: usize = 8 * 1024;
/// How long a client may take to receive the close reason, and the maximum bytes of its further input that are discarded.
const CLOSE_TIME: Duration = Duration::from_secs(5);
const MAX_DISCARDED_BYTES: u64 = 64 * 1024 * 1024;
/// Maximum bytes of the reason in a close frame.
const MAX_REASON_BYTES: usize = 123;

/// Input of the worker.
enum Received {
    Text(Utf8Bytes),
    TooBig(usize),
    Close(u16, String),
}

/// What the upgrade request authenticates with.
pub(super) struct SocketIdentity {
    /// The client of its token.
    pub(super) caller: Option<ApiCaller>,
    /// The cookie of a browser's session.
    pub(super) cookie: Option<String>,
}

type Sink<S> = SplitSink<WebSocketStream<S>, Message>;

pub(super) async fn serve<S>(
    rpc: &Sockets,
    io: S,
    identity: SocketIdentity,
    pending: Arc<PendingConnection>,
) where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let limits = &rpc.rpc.hub.limits;
    let config = WebSocketConfig::default()
        .read_buffer_size(READ_BYTES)
        .write_buffer_size(WRITE_BYTES)
        .max_message_size(Some(limits.message_bytes))
        .max_frame_size(Some(limits.message_bytes));
    let socket = WebSocketStream::from_raw_socket(io, Role::Server, Some(config)).await;
    let (sink, mut stream) = socket.split();
    let (outbox, outgoing) = Outbox::new(limits.queue, limits.queue_bytes);
    let (frames, received) = mpsc::channel(READ_AHEAD);
    let mut connection = Connection::new(Arc::clone(&rpc.rpc.hub), outbox.clone());
    if let Some(cookie) = identity.cookie {
        connection.set_cookie(cookie);
    }
    if let Some(caller) = identity.caller {
        connection.admit(windlass_service::rpc::socket_identity(caller));
    }
    let worker = work(connection, received, outbox, Arc::clone(&pending));
    rpc.app.service.detached_tasks.spawn(worker);
    let disconnected = Arc::new(Notify::new());
    let ping = rpc.app.service.settings.rpc.ping;
    let mut writer = tokio::spawn(write(sink, outgoing, Arc::clone(&disconnected), ping));

    let sink = tokio::select! {
        is_disconnected = read(rpc, &pending, &mut stream, frames) => {
            if is_disconnected {
                disconnected.notify_one();
            }
            timeout(CLOSE_TIME, &mut writer).await
        }
        sink = &mut writer => Ok(sink),
    };
    match sink {
        Ok(Ok(Some(sink))) => drain_and_close(stream, sink).await,
        Ok(_) => {}
        Err(_) => writer.abort(),
    }
}

/// Reads until the client disconnects or must be closed; returns whether it disconnected.
async fn read<S>(
    rpc: &Sockets,
    pending: &PendingConnection,
    stream: &mut SplitStream<WebSocketStream<S>>,
    frames: mpsc::Sender<Received>,
) -> bool
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let idle = rpc.app.service.settings.rpc.idle;
    let mut stopping = pin!(rpc.app.service.stopping.cancelled());
    let mut dismissed = pin!(pending.dismissed());
    let mut revoked = pin!(pending.revoked());
    // The timer is reset only when it fires, not for each message.
    let mut last_message = Instant::now();
    let mut alarm = pin!(sleep_until(last_message + idle));
    let last = loop {
        let message = tokio::select! {
            () = &mut stopping => break Received::Close(1001, "the server stops".to_owned()),
            () = &mut dismissed => break Received::Close(1008, "no token was presented in time".to_owned()),
            () = &mut revoked => break Received::Close(1008, "the token was revoked".to_owned()),
            message = stream.next() => message,
            () = &mut alarm => {
                if last_message.elapsed() < idle {
                    alarm.as_mut().reset(last_message + idle);
                    continue;
                }
                let reason = format!("the connection was idle for {} s", idle.as_secs());
                break Received::Close(1001, reason);
            }
        };
        match message {
            Some(Ok(Message::Text(text))) => {
                if frames.send(Received::Text(text)).await.is_err() {
                    // The worker has closed the connection, and the writer sends the close frame.
                    return false;
                }
            }
            Some(Ok(Message::Ping(_) | Message::Pong(_) | Message::Frame(_))) => {}
            Some(Ok(Message::Binary(_))) => {
                break Received::Close(1003, "only text frames are accepted".to_owned());
            }
            Some(Ok(Message::Close(_))) | None => return true,
            Some(Err(Error::Capacity(CapacityError::MessageTooLong { size, .. }))) => {
                break Received::TooBig(size);
            }
            Some(Err(Error::Utf8(_))) => {
                break Received::Close(1007, "a text frame is not UTF-8".to_owned());
            }
            Some(Err(Error::Protocol(error))) => {
                break Received::Close(1002, error.to_string());
            }
            Some(Err(_)) => return true,
        }
        // Set only now: the full queue of the worker may have blocked reading.
        last_message = Instant::now();
    };
    // Queued after all frames that were read before.
    let _ = frames.send(last).await;
    false
}

/// Handles all frames in order.
async fn work(
    mut connection: Connection,
    mut received: mpsc::Receiver<Received>,
    outbox: Outbox,
    pending: Arc<PendingConnection>,
) {
    loop {
        if connection.is_admitted()
            && let Err(refusal) = pending.admit(connection.token_id())
        {
            outbox.close(1013, refusal.to_string()).await;
            break;
        }
        let Some(frame) = received.recv().await else {
            break;
        };
        let next = match frame {
            Received::Text(text) => connection.handle(&text).await,
            Received::TooBig(size) => connection.refuse_size(size).await,
            Received::Close(code, reason) => FrameAction::Close(Closing { code, reason }),
        };
        if let FrameAction::Close(Closing { code, reason }) = next {
            outbox.close(code, reason).await;
            break;
        }
    }
    connection.disconnect().await;
}

/// Writes queued messages, and sends pings. Returns the sink when all messages are written.
async fn write<S>(
    mut sink: Sink<S>,
    mut outgoing: mpsc::Receiver<Queued>,
    disconnected: Arc<Notify>,
    ping: Duration,
) -> Option<Sink<S>>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let mut pings = tokio::time::interval_at(Instant::now() + ping, ping);
    let mut disconnected = pin!(disconnected.notified());
    loop {
        let message = tokio::select! {
            // The client has disconnected or is closing, and would not read the rest.
            () = &mut disconnected => {
                let _ = sink.close().await;
                return Some(sink);
            }
            message = outgoing.recv() => message,
            _ = pings.tick() => {
                sink.send(Message::Ping(Default::default())).await.ok()?;
                continue;
            }
        };
        // Queued messages are flushed together.
        let mut next = message;
        while let Some(queued) = next {
            match queued.message {
                Outgoing::Text(text) => sink.feed(Message::text(text)).await.ok()?,
                Outgoing::Pieces(source) => write_pieces(&mut sink, source).await?,
                Outgoing::Close(code, reason) => {
                    let reason = truncated(reason).into();
                    let code = CloseCode::from(code);
                    let close = Message::Close(Some(CloseFrame { code, reason }));
                    let _ = sink.send(close).await;
                    return Some(sink);
                }
            }
            next = outgoing.try_recv().ok();
        }
        sink.flush().await.ok()?;
        if outgoing.is_closed() && outgoing.is_empty() {
            return Some(sink);
        }
    }
}

/// Writes a text as the fragments of one message. Each piece is flushed before the next is made.
async fn write_pieces<S>(sink: &mut Sink<S>, mut source: Box<dyn TextSource>) -> Option<()>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let mut kind = Data::Text;
    loop {
        let piece = source.next_piece().await?;
        let frame = Frame::message(piece.bytes, OpCode::Data(kind), piece.is_last);
        if piece.is_last {
            // The caller flushes queued messages together.
            return sink.feed(Message::Frame(frame)).await.ok();
        }
        let mut sending = pin!(sink.send(Message::Frame(frame)));
        match futures_util::poll!(sending.as_mut()) {
            Poll::Ready(sent) => sent.ok()?,
            Poll::Pending => {
                source.release();
                sending.await.ok()?;
            }
        }
        kind = Data::Continue;
    }
}

fn truncated(mut reason: String) -> String {
    let mut ends = (0..=MAX_REASON_BYTES).rev();
    let end = ends.find(|end| reason.is_char_boundary(*end));
    reason.truncate(end.unwrap_or(0));
    reason
}

/// Lets the client receive the last messages. Closing while it still sends would discard them, so its input is drained for a while.
async fn drain_and_close<S>(stream: SplitStream<WebSocketStream<S>>, sink: Sink<S>)
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let Ok(socket) = stream.reunite(sink) else {
        return;
    };
    let mut io = socket.into_inner();
    let _ = timeout(CLOSE_TIME, async {
        io.shutdown().await?;
        tokio::io::copy(&mut io.take(MAX_DISCARDED_BYTES), &mut tokio::io::sink()).await
    })
    .await;
}
