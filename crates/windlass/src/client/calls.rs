//! Calls of the Runtime API that several commands share.

use std::io::Write;

use anyhow::Result;
use windlass_protocol::operations::{
    ExportQuery, IdPath, ThreadDetailQuery, ThreadsQuery, TurnPath,
};
use windlass_protocol::{
    Call, CallError, EnvironmentInfo, PatchThread, ResponseStream, RuntimeApi, Thread,
    ThreadDetail, Turn,
};

/// Returns the path parameters of a thread, task, automation or environment.
pub(crate) fn by_id(id: &str) -> IdPath {
    IdPath { id: id.to_owned() }
}

pub(crate) async fn environments(api: &dyn RuntimeApi) -> Result<Vec<EnvironmentInfo>, CallError> {
    let list = api.list_environments(Call::new((), ())).await?;
    Ok(list.environments)
}

/// Lists the most recently updated threads.
pub(crate) async fn recent_threads(
    api: &dyn RuntimeApi,
    limit: usize,
    include_archived: bool,
) -> Result<Vec<Thread>, CallError> {
    let query = ThreadsQuery {
        limit: Some(limit as u64),
        include_archived: Some(include_archived),
        ..ThreadsQuery::default()
    };
    let page = api
        .list_threads(Call::new((), ()).with_query(query))
        .await?;
    Ok(page.entries)
}

/// Returns a thread with all turns and items.
pub(crate) async fn full_thread(api: &dyn RuntimeApi, id: &str) -> Result<ThreadDetail, CallError> {
    api.get_thread(Call::new(by_id(id), ())).await
}

/// Returns a thread with its newest turns and their items.
pub(crate) async fn newest_turns(
    api: &dyn RuntimeApi,
    id: &str,
    turns: u32,
) -> Result<ThreadDetail, CallError> {
    let query = ThreadDetailQuery {
        turns: Some(turns.into()),
        ..ThreadDetailQuery::default()
    };
    api.get_thread(Call::new(by_id(id), ()).with_query(query))
        .await
}

/// Lists the turns of a thread from the index, without reading its record.
pub(crate) async fn all_turns(api: &dyn RuntimeApi, id: &str) -> Result<Vec<Turn>, CallError> {
    let query = ThreadDetailQuery {
        items: Some(false),
        ..ThreadDetailQuery::default()
    };
    let call = Call::new(by_id(id), ()).with_query(query);
    Ok(api.get_thread(call).await?.turns)
}

/// Returns a thread and resumes a turn that an earlier process left open.
pub(crate) async fn resume(api: &dyn RuntimeApi, id: &str) -> Result<Thread, CallError> {
    api.resume_thread(Call::new(by_id(id), ())).await
}

pub(crate) async fn patch(
    api: &dyn RuntimeApi,
    id: &str,
    change: PatchThread,
) -> Result<Thread, CallError> {
    api.patch_thread(Call::new(by_id(id), change)).await
}

/// Hides a thread from lists.
pub(crate) async fn archive(api: &dyn RuntimeApi, id: &str) -> Result<Thread, CallError> {
    let change = PatchThread {
        archived: Some(true),
        ..PatchThread::default()
    };
    patch(api, id, change).await
}

pub(crate) async fn interrupt(
    api: &dyn RuntimeApi,
    thread_id: &str,
    turn_id: &str,
) -> Result<Turn, CallError> {
    let path = TurnPath {
        id: thread_id.to_owned(),
        turn_id: turn_id.to_owned(),
    };
    api.interrupt_turn(Call::new(path, ())).await
}

/// Returns a thread and its events after `since_seq`, one per line. Chunk boundaries are arbitrary.
pub(crate) async fn export_parts(
    api: &dyn RuntimeApi,
    id: &str,
    since_seq: Option<u64>,
) -> Result<ResponseStream<Vec<u8>>, CallError> {
    let query = ExportQuery {
        since_seq,
        ..ExportQuery::default()
    };
    let call = Call::new(by_id(id), ()).with_query(query);
    api.export_thread(call).await
}

/// Writes a thread and its events after `since_seq`, one per line.
pub(crate) async fn export(
    api: &dyn RuntimeApi,
    id: &str,
    since_seq: Option<u64>,
    out: &mut impl Write,
) -> Result<()> {
    let mut parts = export_parts(api, id, since_seq).await?;
    while let Some(part) = parts.next().await? {
        out.write_all(&part)?;
    }
    Ok(())
}
