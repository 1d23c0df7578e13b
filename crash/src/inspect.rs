//! A program that opens the runtime on the data after a kill, inspects it, and exits.

use std::path::PathBuf;

use windlass_core::error::{AgentLoopError, Result};
use windlass_runtime::{InProcessRuntime, RuntimeBackends};
use windlass_store::sqlite::{OpenCheck, SqliteError, SqliteOptions, SqliteStore};

use crate::child::{EFFECTS, SESSIONS, harness_id, runtime_with, session_id};

/// How the data is opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OpenMode {
    /// For writing: no other process may have it open.
    ToWrite,
    /// Read-only, concurrently with a writer.
    ToRead,
}

/// Reads all sessions through every view of the runtime, and returns the number of open turns.
pub async fn inspect(directory: PathBuf, open: OpenMode) -> Result<usize> {
    let options = SqliteOptions::new(directory.join("store")).with_check(OpenCheck::Nothing);
    let store = match open {
        OpenMode::ToWrite => SqliteStore::open(options).await,
        OpenMode::ToRead => SqliteStore::open_read_only(options).await,
    };
    let unavailable = |error: SqliteError| AgentLoopError::StoreUnavailable(error.to_string());
    let store = store.map_err(unavailable)?;
    let backends = RuntimeBackends::on_journal(std::sync::Arc::new(store.journal()));
    let mut builder = runtime_with(backends, directory.join(EFFECTS));
    for n in 0..SESSIONS {
        let session = windlass_runtime::SessionBuilder::new(harness_id()).id(session_id(n));
        builder = builder.session(session.build());
    }
    read_all_views(&builder.build().await?).await
}

async fn read_all_views(runtime: &InProcessRuntime) -> Result<usize> {
    let mut open = 0;
    for n in 0..SESSIONS {
        let id = session_id(n);
        runtime.events_for(id).await?;
        runtime.messages(id).await?;
        runtime.session(id).await?;
        open += usize::from(runtime.open_turn(id).await?.is_some());
    }
    runtime.unfinished_sessions().await?;
    Ok(open)
}
