//! Stores and events for the tests.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use serde_json::json;
use tokio_postgres::{Client, NoTls};
use windlass_core::events::{CustomData, Event, EventContext, EventRequest};
use windlass_core::typed_id::{EventId, SessionId};
use windlass_store::{Batch, StreamKey};
use windlass_store_postgres::{PostgresOptions, PostgresStore};

use super::server::Server;

/// Returns options for a schema that no other test uses.
pub(crate) fn options(server: &Server) -> PostgresOptions {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    PostgresOptions::new(server.url()).with_schema(format!("test_{number}"))
}

/// Opens an empty store.
pub(crate) async fn store(server: &Server) -> PostgresStore {
    PostgresStore::open(options(server)).await.unwrap()
}

/// Connects without a store.
pub(crate) async fn client(options: &PostgresOptions) -> Client {
    let (client, connection) = tokio_postgres::connect(&options.url, NoTls).await.unwrap();
    tokio::spawn(connection);
    let path = format!("SET search_path = {}", options.schema);
    client.batch_execute(&path).await.unwrap();
    client
}

pub(crate) fn key(name: &str) -> StreamKey {
    StreamKey::new(name)
}

pub(crate) fn event(seq: u64, text: &str) -> Arc<Event> {
    let data = CustomData {
        name: "test".to_owned(),
        payload: json!({ "text": text }),
    };
    let request = EventRequest::new(SessionId::from_seed(7), EventContext::default(), data);
    Arc::new(request.into_event(EventId::new(), Some(seq)))
}

pub(crate) fn batch(first_seq: u64, texts: &[&str]) -> Batch {
    let records = (first_seq..).zip(texts).map(|(seq, text)| event(seq, text));
    Batch {
        first_seq,
        records: records.collect(),
        ..Batch::default()
    }
}
