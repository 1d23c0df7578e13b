//! Clients of one token that ask for much and read nothing.

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

use super::child::Daemon;
use super::client::Client;
use super::{Error, Result};
use crate::report::{Report, Target};

/// How many sockets and how many answers are left unread.
const UNREAD: usize = 512;
/// About how many bytes each input has, and how many turns make a thread of 100 MB on disk.
const INPUT_BYTES: usize = 1_000_000;
const TURNS: usize = 45;
/// How long the unread ones are watched. A connection that takes nothing is closed after a minute.
const WATCHED: Duration = Duration::from_secs(20);
/// How long after they left memory is looked at again.
const REST: Duration = Duration::from_secs(5);
/// The operator's token, which the readers that do read use.
const OPERATOR: &str = "the-operator-of-the-benchmark";

/// Opens sockets and responses that are never read, and reads the thread at the same time.
pub async fn measure(report: &mut Report, binary: &Path) -> Result<()> {
    report.progress("512 unread sockets and 512 unread answers on a thread of 100 MB");
    let home = tempfile::tempdir()?;
    let daemon = Daemon::start_guarded(binary, home.path(), OPERATOR)?;
    let token = create_token(binary, home.path())?;
    let fresh = megabytes(&daemon);
    let client = Client::with_token(&daemon.address, OPERATOR)?;
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
        Target::None,
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
        Client::with_token(&daemon.address, OPERATOR)?,
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
        Target::AtMost(64.0),
    );
    report.figure(
        &label("slowest /health"),
        slowest.as_secs_f64() * 1e3,
        "ms",
        Target::AtMost(100.0),
    );
    report.figure(
        &label("events that a reader got / recorded"),
        read,
        "",
        Target::AtLeast(1.0),
    );
    drop((sockets, answers));
    tokio::time::sleep(REST).await;
    report.figure(
        "thread of 100 MB: resident set after all clients left, above a fresh daemon",
        megabytes(&daemon) - fresh,
        "MB",
        Target::None,
    );
    Ok(())
}

fn megabytes(daemon: &Daemon) -> f64 {
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

/// Follows a thread over a socket and never reads from it. Each begins elsewhere, so that they share little.
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

/// Reads all events of a thread; returns which part of them came, in order.
async fn read_all(client: Client, thread: String, newest: u64) -> Result<f64> {
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
