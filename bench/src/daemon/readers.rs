//! Clients of one token that request much data and read nothing.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use futures_util::SinkExt;
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::{WebSocketStream, client_async};

use super::child::DaemonProcess;
use super::client::BenchClient;
use super::{Error, Result};
use crate::report::{Bound, Report};

/// Number of unread sockets and unread responses.
const UNREAD: usize = 512;
/// Approximate bytes per input, and number of turns of a thread with 100 MB on disk.
const INPUT_BYTES: usize = 1_000_000;
const TURNS: usize = 45;
/// Duration of the observation. A connection whose client does not read is closed after a minute.
const WATCHED: Duration = Duration::from_secs(20);
/// Pause after the clients have left before memory is measured again.
const REST: Duration = Duration::from_secs(5);
/// The operator's token, used by the clients that read.
const OPERATOR: &str = "the-operator-of-the-benchmark";

/// Opens sockets and responses that are never read, and reads the thread at the same time.
pub async fn measure(report: &mut Report, binary: &Path) -> Result<()> {
    report.progress("512 unread sockets and 512 unread answers on a thread of 100 MB");
    let home = tempfile::tempdir()?;
    let daemon = DaemonProcess::start_guarded(binary, home.path(), OPERATOR)?;
    let token = create_token(binary, home.path())?;
    let fresh = megabytes(&daemon);
    let client = BenchClient::with_token(&daemon.address, OPERATOR)?;
    let thread = client.thread().await?;
    let mut events = client.events(&thread).await?;
    let mut newest = 0;
    for number in 0..TURNS {
        let words = "lorem ipsum ".repeat(INPUT_BYTES / 12);
        client.turn(&thread, &format!("{number} {words}")).await?;
        loop {
            let frame = events.next().await?;
            newest = frame.seq;
            if frame.name == "turn.completed" {
                break;
            }
        }
    }
    drop(events);
    tokio::time::sleep(REST).await;
    let before = megabytes(&daemon);
    report.figure(
        "thread of 100 MB: resident set after its turns",
        before - fresh,
        "MB",
        Bound::None,
    );

    let mut sockets = Vec::with_capacity(UNREAD);
    let mut answers = Vec::with_capacity(UNREAD);
    for number in 0..UNREAD {
        sockets.push(unread_socket(&daemon.address, &token, &thread, number).await?);
    }
    for _ in 0..UNREAD {
        answers.push(unread_answer(&daemon.address, &token, &thread).await?);
    }
    let (mut peak, mut slowest) = (before, Duration::ZERO);
    let mut reading = tokio::spawn(read_all(
        BenchClient::with_token(&daemon.address, OPERATOR)?,
        thread.clone(),
        newest,
    ));
    let until = Instant::now() + WATCHED;
    while Instant::now() < until || !reading.is_finished() {
        let asked = Instant::now();
        client.health().await?;
        slowest = slowest.max(asked.elapsed());
        peak = peak.max(megabytes(&daemon));
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let read = (&mut reading).await??;
    let label = |what: &str| format!("512 unread sockets, 512 unread answers: {what}");
    report.figure(
        &label("resident set grows by"),
        peak - before,
        "MB",
        Bound::AtMost(64.0),
    );
    report.figure(
        &label("slowest /health"),
        slowest.as_secs_f64() * 1e3,
        "ms",
        Bound::AtMost(100.0),
    );
    report.figure(
        &label("events that a reader got / recorded"),
        read,
        "",
        Bound::AtLeast(1.0),
    );
    drop((sockets, answers));
    tokio::time::sleep(REST).await;
    report.figure(
        "thread of 100 MB: resident set after all clients left, above a fresh daemon",
        megabytes(&daemon) - fresh,
        "MB",
        Bound::None,
    );
    Ok(())
}

fn megabytes(daemon: &DaemonProcess) -> f64 {
    daemon.resident_bytes() as f64 / 1e6
}

fn create_token(binary: &Path, home: &Path) -> Result<String> {
    let made = Command::new(binary)
        .args(["token", "create", "--scope", "client", "--json"])
        .current_dir(home)
        .env_clear()
        .env("WINDLASS_DATA", home.join("data"))
        .output()?;
    let made: Value = serde_json::from_slice(&made.stdout)?;
    let token = made["token"].as_str().ok_or("a token without a secret")?;
    Ok(token.to_owned())
}

/// Follows a thread over a socket and never reads. Each socket starts at another position, so that they share little.
async fn unread_socket(
    address: &str,
    token: &str,
    thread: &str,
    number: usize,
) -> Result<WebSocketStream<TcpStream>> {
    let mut request = format!("ws://{address}/").into_client_request()?;
    let bearer = format!("Bearer {token}").parse()?;
    request.headers_mut().insert("authorization", bearer);
    let (mut socket, _) = client_async(request, TcpStream::connect(address).await?).await?;
    let params = json!({"thread_id": thread, "since_seq": number});
    let call = json!({"jsonrpc": "2.0", "id": 1, "method": "events.subscribe", "params": params});
    socket.send(Message::text(call.to_string())).await?;
    Ok(socket)
}

async fn unread_answer(address: &str, token: &str, thread: &str) -> Result<TcpStream> {
    let mut connection = TcpStream::connect(address).await?;
    let request = format!(
        "GET /v1/threads/{thread} HTTP/1.1\r\nhost: {address}\r\nauthorization: Bearer {token}\r\n\r\n"
    );
    connection.write_all(request.as_bytes()).await?;
    Ok(connection)
}

/// Reads all events of a thread; returns the fraction that arrived in order.
async fn read_all(client: BenchClient, thread: String, newest: u64) -> Result<f64> {
    let mut events = client.events(&thread).await?;
    let mut previous = 0;
    while previous < newest {
        let frame = events.next().await?;
        if frame.data["previous_seq"] != previous {
            return Err(Error::from(format!(
                "event {} does not follow {previous}",
                frame.seq
            )));
        }
        previous = frame.seq;
    }
    Ok(1.0)
}
