//! Standard input as part of a prompt.

use std::io::{self, IsTerminal, Read};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;

use anyhow::{Context, Result, ensure};

use crate::cli::note;

/// Larger input does not fit into the context window of most models.
const MAX_BYTES: usize = 1 << 20;
/// How long to wait for the end of input before a message explains the wait.
const NOTICE_DELAY: Duration = Duration::from_secs(3);

/// Returns the piped standard input; `None` if it is a terminal, empty or blank.
pub(crate) fn input() -> Result<Option<String>> {
    if io::stdin().is_terminal() {
        return Ok(None);
    }
    let text = read()?;
    Ok(Some(text).filter(|text| !text.trim().is_empty()))
}

/// Reads standard input to its end, also from a terminal.
pub(crate) fn read() -> Result<String> {
    let is_terminal = io::stdin().is_terminal();
    let (done, ended) = mpsc::channel();
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        let limit = MAX_BYTES as u64 + 1;
        let read = io::stdin().lock().take(limit).read_to_end(&mut bytes);
        // The receiver is gone only when the process ends.
        let _ = done.send(read.map(|_| bytes));
    });
    let bytes = match ended.recv_timeout(NOTICE_DELAY) {
        Err(RecvTimeoutError::Timeout) => {
            if !is_terminal {
                note("waiting for the end of standard input; `</dev/null` if there is none");
            }
            ended.recv()?
        }
        received => received?,
    };
    let bytes = bytes.context("standard input cannot be read")?;
    ensure!(
        bytes.len() <= MAX_BYTES,
        "standard input is larger than {} MiB; write it to a file and let the agent read that",
        MAX_BYTES >> 20
    );
    String::from_utf8(bytes).context("standard input is not UTF-8 text")
}
