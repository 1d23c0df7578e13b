//! Notification of watchers: within the process at once, and of other processes by `NOTIFY`.
//!
//! A `NOTIFY` in the transaction of an append would make all commits of the server wait for each other. So one connection per process, which is not
//! used for anything else, sends the newest heads after their commits, many in one message, and receives those of the other processes. A lost
//! message delays a watcher by at most [`POLL`], because the heads of watched streams are also read from time to time.

use std::collections::HashMap;
use std::future::poll_fn;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::{Notify, mpsc, watch};
use tokio::time::{MissedTickBehavior, interval, sleep};
use tokio_postgres::{AsyncMessage, Client, Config, Connection, NoTls, Socket};
use uuid::Uuid;
use windlass_store::StreamKey;
use windlass_store::durable::chain::{Digest, digest};

use crate::error::describe;
use crate::numbers::uint;

/// How often the heads of watched streams are read, and how long a lost connection is not tried again.
const POLL: Duration = Duration::from_secs(1);

/// The minimum time between two messages.
const SEND_INTERVAL: Duration = Duration::from_millis(5);

/// The maximum size of a message in bytes; the server permits fewer than 8,000.
const MAX_MESSAGE: usize = 7_900;

/// How many received messages wait to be read. Further ones are lost, and the heads are read later.
const MAX_RECEIVED: usize = 1024;

/// Returns the digest by which messages and tables identify a stream.
pub(crate) fn key_hash(stream: &StreamKey) -> Digest {
    digest(stream.as_str().as_bytes())
}

/// The watched streams.
#[derive(Debug, Default)]
pub(crate) struct StreamNotifier {
    watched: Mutex<HashMap<Digest, watch::Sender<u64>>>,
    all: watch::Sender<u64>,
    /// Heads that other processes have not been sent; `None` for a removed stream.
    unsent: Mutex<HashMap<Digest, Option<u64>>>,
    is_unsent: Notify,
}

impl StreamNotifier {
    /// Returns a receiver. Call [`show`](Self::show) with the current head after that, so that no commit is missed.
    pub(crate) fn watch(&self, stream: &StreamKey) -> watch::Receiver<u64> {
        let mut watched = self.watched.lock();
        if watched.len().is_power_of_two() {
            // From time to time, streams without watchers are removed.
            watched.retain(|_, head| head.receiver_count() > 0);
        }
        watched.entry(key_hash(stream)).or_default().subscribe()
    }

    pub(crate) fn watch_all(&self) -> watch::Receiver<u64> {
        self.all.subscribe()
    }

    /// Shows a head to the watchers of a stream, unless they have seen a newer one.
    pub(crate) fn show(&self, stream: &Digest, head: u64) {
        if let Some(shown) = self.watched.lock().get(stream) {
            shown.send_if_modified(|shown| {
                let is_newer = head > *shown;
                *shown = head.max(*shown);
                is_newer
            });
        }
    }

    /// Notifies all watchers of a commit of this process; `None` is the removal of the stream.
    pub(crate) fn committed(&self, stream: &StreamKey, head: Option<u64>) {
        let key = key_hash(stream);
        self.changed(&key, head);
        self.unsent.lock().insert(key, head);
        self.is_unsent.notify_one();
    }

    fn changed(&self, stream: &Digest, head: Option<u64>) {
        match head {
            Some(head) => self.show(stream, head),
            // Dropping the sender ends the watch.
            None => drop(self.watched.lock().remove(stream)),
        }
        self.all.send_modify(|commits| *commits += 1);
    }

    /// Returns the watched streams with the heads that their watchers have seen.
    fn shown(&self) -> HashMap<Digest, u64> {
        let watched = self.watched.lock();
        let shown = watched.iter().map(|(key, head)| (*key, *head.borrow()));
        shown.collect()
    }

    /// Takes heads for one message.
    fn message(&self, sender: &str) -> Option<String> {
        let mut unsent = self.unsent.lock();
        let mut message = sender.to_owned();
        let mut sent = Vec::new();
        for (key, head) in unsent.iter() {
            let head = head.map_or_else(String::new, |head| format!("{head:x}"));
            let part = format!(" {}={head}", blake3::Hash::from_bytes(*key).to_hex());
            if message.len() + part.len() > MAX_MESSAGE {
                break;
            }
            message.push_str(&part);
            sent.push(*key);
        }
        for key in &sent {
            unsent.remove(key);
        }
        (!sent.is_empty()).then_some(message)
    }

    /// Reads a message of another process. An unreadable one has no effect.
    fn receive(&self, message: &str, own: &str) {
        let mut parts = message.split(' ');
        if parts.next() == Some(own) {
            return;
        }
        for part in parts {
            let Some((key, head)) = part.split_once('=') else {
                continue;
            };
            let head = match head {
                "" => Some(None),
                head => u64::from_str_radix(head, 16).ok().map(Some),
            };
            if let (Ok(key), Some(head)) = (blake3::Hash::from_hex(key), head) {
                self.changed(key.as_bytes(), head);
            }
        }
    }
}

/// Sends and receives notifications, until the task is aborted.
pub(crate) async fn follow(config: Config, schema: String, notifier: Arc<StreamNotifier>) {
    loop {
        if let Err(error) = session(&config, &schema, &notifier).await {
            let error = describe(&error);
            tracing::warn!(%error, "notifications of other processes are delayed: the connection was lost");
        }
        sleep(POLL).await;
    }
}

async fn session(
    config: &Config,
    schema: &str,
    notifier: &StreamNotifier,
) -> Result<(), tokio_postgres::Error> {
    let (client, connection) = config.connect(NoTls).await?;
    let (sender, mut received) = mpsc::channel(MAX_RECEIVED);
    let working = work(&client, schema, notifier, &mut received);
    tokio::select! {
        ended = drive(connection, sender) => ended,
        ended = working => ended,
    }
}

/// Runs a connection, and passes the messages on that it receives.
async fn drive(
    mut connection: Connection<Socket, tokio_postgres::tls::NoTlsStream>,
    sender: mpsc::Sender<String>,
) -> Result<(), tokio_postgres::Error> {
    while let Some(message) = poll_fn(|context| connection.poll_message(context)).await {
        if let AsyncMessage::Notification(notification) = message? {
            // If the channel is full, the message is lost.
            let _ = sender.try_send(notification.payload().to_owned());
        }
    }
    Ok(())
}

async fn work(
    client: &Client,
    schema: &str,
    notifier: &StreamNotifier,
    received: &mut mpsc::Receiver<String>,
) -> Result<(), tokio_postgres::Error> {
    let own = Uuid::now_v7().simple().to_string();
    let channel = format!("windlass_{schema}");
    // A message needs no durability.
    let listen = format!("SET synchronous_commit = off; LISTEN \"{channel}\"");
    client.batch_execute(&listen).await?;
    let heads = client
        .prepare("SELECT key_hash, head FROM streams WHERE key_hash = ANY($1)")
        .await?;
    let notify = client.prepare("SELECT pg_notify($1, $2)").await?;
    let mut poll = interval(POLL);
    poll.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            Some(message) = received.recv() => notifier.receive(&message, &own),
            () = notifier.is_unsent.notified() => {
                while let Some(message) = notifier.message(&own) {
                    client.execute(&notify, &[&channel, &message]).await?;
                }
                // Heads of the meantime are sent together.
                sleep(SEND_INTERVAL).await;
            }
            _ = poll.tick() => {
                // What was shown before the query was committed before it, so a stream that the query does not find was removed.
                let mut shown = notifier.shown();
                let keys: Vec<&[u8]> = shown.keys().map(<[u8; 32]>::as_slice).collect();
                if keys.is_empty() {
                    continue;
                }
                for row in client.query(&heads, &[&keys]).await? {
                    if let Ok(key) = row.try_get::<_, &[u8]>(0)?.try_into() {
                        notifier.show(&key, uint(row.try_get(1)?));
                        shown.remove(&key);
                    }
                }
                for (key, _) in shown.iter().filter(|(_, head)| **head > 0) {
                    notifier.changed(key, None);
                }
            }
        }
    }
}
