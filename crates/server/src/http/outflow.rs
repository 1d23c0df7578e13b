//! Tracks data that was passed to a connection but is not written yet.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use tokio::sync::Notify;
use windlass_service::{ApiError, PIECE_BYTES};

use crate::error::{HttpRefusal, Result};

/// Counts unwritten bytes of a connection. A stream's producer waits until the connection is writable before it makes the next piece, so a connection that is not read
/// holds about two pieces.
#[derive(Clone, Default)]
pub(crate) struct Outflow(Arc<State>);

#[derive(Default)]
struct State {
    unwritten: AtomicUsize,
    flushed: Notify,
}

impl Outflow {
    /// Adds bytes that were passed to the connection.
    pub(crate) fn add(&self, bytes: usize) {
        self.0.unwritten.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Waits until the connection can accept more.
    pub(crate) async fn writable(&self) {
        while self.0.unwritten.load(Ordering::Relaxed) >= PIECE_BYTES {
            self.0.flushed.notified().await;
        }
    }

    /// Records that the socket has accepted all bytes.
    pub(super) fn flushed(&self) {
        if self.0.unwritten.swap(0, Ordering::Relaxed) > 0 {
            self.0.flushed.notify_one();
        }
    }
}

impl<S: Sync> FromRequestParts<S> for Outflow {
    type Rejection = HttpRefusal;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, HttpRefusal> {
        let outflow = parts.extensions.get::<Self>().cloned();
        outflow.ok_or_else(|| ApiError::internal("a request belongs to no connection").into())
    }
}
