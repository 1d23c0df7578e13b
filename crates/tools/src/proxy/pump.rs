//! Copies bytes between two connections, within the limit of the call.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

/// Size of the copy buffer.
const PIECE: usize = 16 * 1024;

/// Number of bytes that the call may still transfer.
#[derive(Debug)]
pub(super) struct Budget(AtomicU64);

/// Why copying stopped.
#[derive(Debug)]
pub(super) enum Stopped {
    /// The call's byte limit is exhausted.
    Spent,
    /// One side closed the connection.
    Gone,
}

impl From<io::Error> for Stopped {
    fn from(_: io::Error) -> Self {
        Self::Gone
    }
}

impl Budget {
    pub(super) fn new(bytes: u64) -> Self {
        Self(AtomicU64::new(bytes))
    }

    /// Subtracts bytes from the limit, if enough are left.
    pub(super) fn take(&self, bytes: usize) -> Result<(), Stopped> {
        let bytes = u64::try_from(bytes).unwrap_or(u64::MAX);
        let order = Ordering::Relaxed;
        let taken = self
            .0
            .fetch_update(order, order, |left| left.checked_sub(bytes));
        taken.map(drop).map_err(|_| Stopped::Spent)
    }
}

/// Copies bytes until the end or until the limit is reached.
pub(super) async fn pump(
    mut from: impl AsyncRead + Unpin,
    to: &mut (impl AsyncWrite + Unpin),
    mut most: u64,
    budget: &Budget,
) -> Result<(), Stopped> {
    let mut piece = vec![0; PIECE];
    while most > 0 {
        let room = usize::try_from(most).unwrap_or(PIECE).min(PIECE);
        let read = from.read(&mut piece[..room]).await?;
        if read == 0 {
            break;
        }
        budget.take(read)?;
        to.write_all(&piece[..read]).await?;
        most -= u64::try_from(read).unwrap_or(most);
    }
    Ok(())
}
