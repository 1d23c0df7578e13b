//! Reads a program's output in pieces or line by line. A few pieces are buffered; a slow reader makes the program wait.

use std::io::{PipeReader, Read};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};

use tokio::sync::mpsc;

use crate::error::ProcessError;
use crate::output::Output;
use crate::supervise::spawn_thread;

/// Maximum size of a piece.
const PIECE_BYTES: usize = 16 * 1024;
/// Maximum number of buffered pieces.
const MAX_PIECES: usize = 16;

/// The pieces of a program's output, as they arrive.
pub struct Chunks {
    pieces: mpsc::Receiver<Vec<u8>>,
}

impl Chunks {
    /// Waits for the next piece; `None` after the end.
    pub async fn next(&mut self) -> Option<Vec<u8>> {
        self.pieces.recv().await
    }

    /// Reads the output line by line.
    #[must_use]
    pub fn lines(self, max_bytes: usize) -> Lines {
        Lines {
            chunks: self,
            max_bytes,
            buffer: Vec::new(),
            searched: 0,
            is_skipping: false,
            is_at_end: false,
        }
    }
}

/// A line exceeds the limit. The rest of it is skipped, and the next call reads the following line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the program wrote a line of more than {limit} bytes")]
pub struct LineTooLong {
    /// Maximum length of a line in bytes.
    pub limit: usize,
}

/// The lines of a program's output.
pub struct Lines {
    chunks: Chunks,
    max_bytes: usize,
    buffer: Vec<u8>,
    /// Length of the buffer's prefix that contains no line end.
    searched: usize,
    is_skipping: bool,
    is_at_end: bool,
}

impl Lines {
    /// Waits for the next line, without its line end; `None` after the end. The last line needs no line end. Cancel safe.
    pub async fn next(&mut self) -> Result<Option<Vec<u8>>, LineTooLong> {
        loop {
            if let Some(line) = self.take_line()? {
                return Ok(Some(line));
            }
            if self.is_at_end {
                let is_skipped = std::mem::take(&mut self.is_skipping);
                let rest = std::mem::take(&mut self.buffer);
                self.searched = 0;
                return Ok((!rest.is_empty() && !is_skipped).then_some(rest));
            }
            match self.chunks.next().await {
                Some(piece) => self.buffer.extend_from_slice(&piece),
                None => self.is_at_end = true,
            }
        }
    }

    fn take_line(&mut self) -> Result<Option<Vec<u8>>, LineTooLong> {
        loop {
            let unseen = &self.buffer[self.searched..];
            let end = unseen.iter().position(|byte| *byte == b'\n');
            let Some(end) = end.map(|end| self.searched + end) else {
                self.searched = self.buffer.len();
                if self.is_skipping {
                    self.buffer.clear();
                    self.searched = 0;
                } else if self.buffer.len() > self.max_bytes {
                    return Err(self.skip());
                }
                return Ok(None);
            };
            let mut line: Vec<u8> = self.buffer.drain(..=end).collect();
            self.searched = 0;
            if std::mem::take(&mut self.is_skipping) {
                continue;
            }
            line.pop();
            if line.len() > self.max_bytes {
                return Err(LineTooLong {
                    limit: self.max_bytes,
                });
            }
            return Ok(Some(line));
        }
    }

    fn skip(&mut self) -> LineTooLong {
        self.buffer = Vec::new();
        self.searched = 0;
        self.is_skipping = true;
        LineTooLong {
            limit: self.max_bytes,
        }
    }
}

/// Reads pieces until no process writes any more or the receiver is dropped.
pub(crate) fn into_chunks(reader: PipeReader) -> Result<Chunks, ProcessError> {
    let (send, pieces) = mpsc::channel(MAX_PIECES);
    read(reader, move |bytes| {
        send.blocking_send(bytes.to_vec()).is_ok()
    })?;
    Ok(Chunks { pieces })
}

/// Reads into an [`Output`] until no process writes any more.
pub(crate) fn into_output(
    reader: PipeReader,
    output: &Arc<Output>,
) -> Result<Receiver<()>, ProcessError> {
    let output = Arc::clone(output);
    read(reader, move |bytes| {
        output.push(bytes);
        true
    })
}

/// Starts the reading thread. Returns a receiver that reports when everything is read.
fn read(
    mut reader: PipeReader,
    mut take: impl FnMut(&[u8]) -> bool + Send + 'static,
) -> Result<Receiver<()>, ProcessError> {
    let (done, drained) = channel();
    spawn_thread("windlass-read", move || {
        let mut buffer = vec![0; PIECE_BYTES];
        loop {
            match reader.read(&mut buffer) {
                Ok(0) => break,
                Ok(count) if take(&buffer[..count]) => {}
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Ok(_) | Err(_) => break,
            }
        }
        let _ = done.send(());
    })?;
    Ok(drained)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Reads all lines from these pieces; a line that is too long is `None`.
    fn lines_of(pieces: &[Vec<u8>], max_bytes: usize) -> Vec<Option<Vec<u8>>> {
        let (send, received) = mpsc::channel(pieces.len() + 1);
        for piece in pieces {
            send.try_send(piece.clone()).unwrap();
        }
        drop(send);
        let mut lines = Chunks { pieces: received }.lines(max_bytes);
        let executor = tokio::runtime::Builder::new_current_thread();
        let executor = { executor }.build().unwrap();
        executor.block_on(async {
            let mut read = Vec::new();
            loop {
                match lines.next().await {
                    Ok(Some(line)) => read.push(Some(line)),
                    Ok(None) => return read,
                    Err(LineTooLong { .. }) => read.push(None),
                }
            }
        })
    }

    proptest! {
        #[test]
        fn lines_do_not_depend_on_how_the_output_is_split(
            pieces in prop::collection::vec(prop::collection::vec(prop::sample::select(b"ab\n".to_vec()), 0..12), 0..12),
            max_bytes in 0_usize..8,
        ) {
            let whole = pieces.concat();
            let mut expected: Vec<_> = whole.split(|byte| *byte == b'\n').collect();
            if expected.last().is_some_and(|last| last.is_empty()) {
                expected.pop();
            }
            let fits = |line: &&[u8]| (line.len() <= max_bytes).then(|| line.to_vec());
            let expected: Vec<_> = expected.iter().map(fits).collect();
            prop_assert_eq!(lines_of(&pieces, max_bytes), expected);
        }
    }
}
