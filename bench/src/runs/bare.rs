//! The yardstick: a WebSocket that keeps every message in a bare group commit and sends it back.

use std::net::SocketAddr;

use futures_util::{SinkExt, StreamExt};
use rusqlite::Connection;
use tokio::net::TcpListener;
use tokio::sync::{mpsc, oneshot};
use tokio_tungstenite::accept_async;
use tokio_tungstenite::tungstenite::Message;
use windlass_core::AgentLoopError;

use super::failed;

type Job = (Vec<u8>, oneshot::Sender<()>);

pub struct Bare {
    pub address: SocketAddr,
    _directory: tempfile::TempDir,
}

pub async fn start() -> Result<Bare, AgentLoopError> {
    let directory = tempfile::tempdir().map_err(failed("make a directory"))?;
    let database = Connection::open(directory.path().join("bare.db")).map_err(failed("open"))?;
    database
        .execute_batch(
            "PRAGMA page_size = 2048; PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; \
             PRAGMA wal_autocheckpoint = 4096; CREATE TABLE bare (id INTEGER PRIMARY KEY, body BLOB NOT NULL)",
        )
        .map_err(failed("make a table"))?;
    let (jobs, queue) = mpsc::channel(1024);
    std::thread::spawn(move || write(&database, queue));
    let listener = TcpListener::bind("127.0.0.1:0")
        .await
        .map_err(failed("listen"))?;
    let address = listener.local_addr().map_err(failed("listen"))?;
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let _ = stream.set_nodelay(true);
            tokio::spawn(echo(stream, jobs.clone()));
        }
    });
    Ok(Bare {
        address,
        _directory: directory,
    })
}

/// Commits everything that waits at once.
fn write(database: &Connection, mut queue: mpsc::Receiver<Job>) {
    while let Some(first) = queue.blocking_recv() {
        let mut group = vec![first];
        while let Ok(next) = queue.try_recv() {
            group.push(next);
        }
        let done = database.execute_batch("BEGIN IMMEDIATE").and_then(|()| {
            let mut insert = database.prepare_cached("INSERT INTO bare (body) VALUES (?1)")?;
            for (body, _) in &group {
                insert.execute([body])?;
            }
            database.execute_batch("COMMIT")
        });
        if done.is_err() {
            return;
        }
        for (_, answer) in group {
            let _ = answer.send(());
        }
    }
}

async fn echo(stream: tokio::net::TcpStream, jobs: mpsc::Sender<Job>) {
    let Ok(mut socket) = accept_async(stream).await else {
        return;
    };
    while let Some(Ok(message)) = socket.next().await {
        let Message::Text(text) = message else {
            continue;
        };
        let (answer, answered) = oneshot::channel();
        let body = text.as_str().as_bytes().to_vec();
        if jobs.send((body, answer)).await.is_err() || answered.await.is_err() {
            return;
        }
        if socket.send(Message::Text(text)).await.is_err() {
            return;
        }
    }
}
