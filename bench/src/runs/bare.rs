//! The reference: a WebSocket server that stores every message in a bare group commit and echoes it, in a separate process
//! like the daemon.

use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, ExitCode, Stdio};

use futures_util::{SinkExt, StreamExt};
use rusqlite::Connection;
use tokio::net::TcpListener;
use tokio::sync::{mpsc, oneshot};
use tokio_tungstenite::accept_async;
use tokio_tungstenite::tungstenite::Message;

use super::{Error, Result};

/// The argument that starts this program as the reference server.
pub const CHILD: &str = "runs-bare";

type WriteJob = (Vec<u8>, oneshot::Sender<()>);

/// A listening reference server. Dropping it kills the process.
pub struct Bare {
    pub address: SocketAddr,
    child: Child,
    _directory: tempfile::TempDir,
}

impl Bare {
    pub fn start() -> Result<Self> {
        let directory = tempfile::tempdir()?;
        let mut child = Command::new(std::env::current_exe()?)
            .arg(CHILD)
            .arg(directory.path())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()?;
        let stdout = child.stdout.take().ok_or("the yardstick has no stdout")?;
        let mut line = String::new();
        BufReader::new(stdout).read_line(&mut line)?;
        Ok(Self {
            address: line.trim_end().parse()?,
            child,
            _directory: directory,
        })
    }
}

impl Drop for Bare {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Runs the reference server until it is killed.
pub fn live_as_child(directory: &str) -> ExitCode {
    match serve(Path::new(directory)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("windlass-bench: {error}");
            ExitCode::FAILURE
        }
    }
}

fn serve(directory: &Path) -> Result<()> {
    let database = Connection::open(directory.join("bare.db"))?;
    database.execute_batch(
        "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; \
         CREATE TABLE bare (id INTEGER PRIMARY KEY, body BLOB NOT NULL)",
    )?;
    let (jobs, queue) = mpsc::channel(1024);
    std::thread::spawn(move || write(&database, queue));
    tokio::runtime::Runtime::new()?.block_on(async {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        println!("{}", listener.local_addr()?);
        loop {
            let (stream, _) = listener.accept().await?;
            let _ = stream.set_nodelay(true);
            tokio::spawn(echo(stream, jobs.clone()));
        }
    })
}

/// Commits all queued messages together.
fn write(database: &Connection, mut queue: mpsc::Receiver<WriteJob>) {
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

async fn echo(stream: tokio::net::TcpStream, jobs: mpsc::Sender<WriteJob>) -> Result<()> {
    let mut socket = accept_async(stream).await?;
    while let Some(message) = socket.next().await {
        let Message::Text(text) = message? else {
            continue;
        };
        let (answer, answered) = oneshot::channel();
        let body = text.as_str().as_bytes().to_vec();
        jobs.send((body, answer)).await.map_err(Error::from)?;
        answered.await?;
        socket.send(Message::Text(text)).await?;
    }
    Ok(())
}
