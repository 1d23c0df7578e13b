//! Forks: a stream that begins with records of another one. A fork writes a few rows, regardless of the length of the conversation.

use deadpool_postgres::GenericClient;
use windlass_core::events::Event;
use windlass_store::durable::chain::Digest;
use windlass_store::durable::record::encode;
use windlass_store::durable::window::Window;
use windlass_store::journal::fork::{
    BUSY, HAS_RECORDS, OpenInputs, PRUNED, TOO_SHORT, own_records, refused,
};
use windlass_store::journal::open_turns::OpenTurns;
use windlass_store::{JournalError, StreamKey};

use super::append::rows;
use super::heads::StreamHead;
use super::queue::{StreamChange, insert_changes};
use super::read::open_inputs;
use super::streams::find;
use super::walk::link_at;
use crate::error::DbResult;
use crate::notify::key_hash;
use crate::numbers::{int, uint};
use crate::store::SharedState;

/// The end of the records that a fork shares.
struct Shared {
    /// The stream that contains the last of them.
    holder: i64,
    link: Digest,
    waiting: OpenInputs,
}

/// Creates a fork in one transaction; returns the number of its newest record.
pub(super) async fn fork(
    inner: &SharedState,
    parent: &StreamKey,
    at_seq: u64,
    child: &StreamKey,
    forked: &Event,
) -> DbResult<u64> {
    let mut client = inner.database.client().await?;
    let transaction = client.transaction().await?;
    let shared = match at_seq {
        0 => None,
        _ => Some(share(&transaction, parent, at_seq).await?),
    };
    let link = match &shared {
        Some(shared) => inner.chain.fork(&shared.link, child),
        None => inner.chain.start(child),
    };
    let sql = "INSERT INTO streams (key_hash, key, epoch, head, chain, parent, parent_seq, session) \
        VALUES ($1, $2, 1, $3, $4, $5, $6, $7) ON CONFLICT (key_hash) DO UPDATE \
        SET epoch = streams.epoch + 1, head = excluded.head, chain = excluded.chain, parent = excluded.parent, \
        parent_seq = excluded.parent_seq, session = excluded.session WHERE streams.head = 0 RETURNING id, epoch";
    let holder = shared.as_ref().map(|shared| shared.holder);
    let row = transaction
        .query_opt(
            sql,
            &[
                &key_hash(child).as_slice(),
                &child.as_str().as_bytes(),
                &int(at_seq),
                &link.as_slice(),
                &holder,
                &holder.map(|_| int(at_seq)),
                &holder.map(|_| forked.session_id.uuid()),
            ],
        )
        .await?;
    let row = row.ok_or_else(|| refused(child, 0, HAS_RECORDS))?;
    let stream = uint(row.try_get(0)?);
    let mut next = StreamHead {
        key: child.clone(),
        epoch: uint(row.try_get(1)?),
        seq: at_seq,
        link,
        open: OpenTurns::default(),
    };
    let waiting = shared.map(|shared| shared.waiting).unwrap_or_default();
    let records = own_records(forked, at_seq, waiting);
    let encoded = encode(&records, &mut Window::default())?;
    let rows = rows(&inner.chain, &mut next, &encoded);
    let change = StreamChange {
        stream,
        head: at_seq,
        next: &next,
        rows: &rows,
    };
    let base = inner.database.commit_base;
    let written = insert_changes(&transaction, base, std::iter::once(change)).await?;
    if written.is_empty() {
        return Err(JournalError::Removed(stream).into());
    }
    transaction.commit().await?;
    inner.heads.replace(stream, None);
    inner.notifier.committed(child, Some(next.seq));
    Ok(next.seq)
}

/// Checks that a stream can be forked after a record, and prevents its removal until the fork is committed.
async fn share(client: &impl GenericClient, parent: &StreamKey, at_seq: u64) -> DbResult<Shared> {
    let too_short = || refused(parent, at_seq, TOO_SHORT);
    let sql = "SELECT 1 FROM streams WHERE key_hash = $1 FOR KEY SHARE";
    let hash = key_hash(parent);
    client.query_opt(sql, &[&hash.as_slice()]).await?;
    let stream = find(client, parent).await?;
    let stream = stream.filter(|stream| stream.head >= at_seq);
    let lineage = stream.ok_or_else(too_short)?.lineage;
    let holder = int(lineage.part_of(at_seq).stream);
    let sql = "SELECT 1 FROM streams WHERE id = $1 FOR KEY SHARE";
    client.query_opt(sql, &[&holder]).await?;
    let found = link_at(client, &lineage, at_seq).await?;
    let (link, open_from) = found.ok_or_else(|| refused(parent, at_seq, PRUNED))?;
    let waiting = open_inputs(client, &lineage, open_from, at_seq).await?;
    if waiting.is_busy() {
        return Err(refused(parent, at_seq, BUSY).into());
    }
    Ok(Shared {
        holder,
        link,
        waiting,
    })
}
