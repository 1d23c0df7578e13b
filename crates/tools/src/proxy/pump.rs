//! Copies bytes between two connections, within the limit of the call.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

/// Size of the copy buffer.
const BUFFER_SIZE: usize = 16 * 1024;

/// Number of bytes that the call may still transfer.
#[derive(Debug)]
pub(super) struct ByteBudget(AtomicU64);

/// Why copying stopped.
#[derive(Debug)]
pub(super) enum CopyError {
    /// The call's byte limit is exhausted.
    LimitReached,
    /// One side closed the connection.
    Closed,
}

impl From<io::Error> for CopyError {
    fn from(_: io::Error) -> Self {
        Self::Closed
    }
}

impl ByteBudget {
    pub(super) fn new(bytes: u64) -> Self {
        Self(AtomicU64::new(bytes))
    }

    /// Subtracts bytes from the limit, if enough are left.
    pub(super) fn take(&self, bytes: usize) -> Result<(), CopyError> {
        let bytes = u64::try_from(bytes).unwrap_or(u64::MAX);
        let order = Ordering::Relaxed;
        let taken = self
            .0
            .fetch_update(order, order, |left| left.checked_sub(bytes));
        taken.map(drop).map_err(|_| CopyError::LimitReached)
    }
}

/// Copies bytes until the end or until the limit is reached.
pub(super) async fn pump(
    mut from: impl AsyncRead + Unpin,
    to: &mut (impl AsyncWrite + Unpin),
    mut max_bytes: u64,
    budget: &ByteBudget,
) -> Result<(), CopyError> {
    let mut piece = vec![0; BUFFER_SIZE];
    while max_bytes > 0 {
        let left = usize::try_from(max_bytes)
            .unwrap_or(BUFFER_SIZE)
            .min(BUFFER_SIZE);
        let read = from.read(&mut piece[..left]).await?;
        if read == 0 {
            break;
        }
        budget.take(read)?;
        to.write_all(&piece[..read]).await?;
        max_bytes -= u64::try_from(read).unwrap_or(max_bytes);
    }
    Ok(())
}
