//! The queue of appends: all that wait share one statement, and so one commit.
//!
//! Two tasks take turns. While one waits for its commit, appends gather for the other. An append with rows of the host or settlements has a
//! transaction of its own.

use std::collections::HashSet;
use std::sync::Arc;

use chrono::{DateTime, Utc};
use deadpool_postgres::GenericClient;
use tokio::sync::{Mutex, OwnedMutexGuard, mpsc, oneshot};
use windlass_store::durable::record::{Encoded, Form};
use windlass_store::{Claim, JournalError, RowWrite, Settlement};

use super::heads::StreamHead;
use crate::error::{DbError, DbResult, PostgresError};
use crate::notify::StreamNotifier;
use crate::numbers::{int, uint};
use crate::store::Database;
use crate::{host_records, ledger};

/// How many statements run at the same time.
const WRITERS: usize = 2;

/// The maximum number of appends in a statement.
const MAX_GROUP: usize = 64;

/// The number of bytes after which a group ends. The server accepts at most 1 GiB.
const MAX_GROUP_BYTES: usize = 16 * 1024 * 1024;

/// How often an append is repeated that conflicts with another transaction.
const MAX_CONFLICTS: usize = 3;

/// A record to write.
#[derive(Debug)]
pub(super) struct AppendRow {
    seq: i64,
    version: i32,
    form: i16,
    is_chunk: bool,
    open_from: i64,
    at: i64,
    link: Vec<u8>,
    body: Vec<u8>,
}

impl AppendRow {
    /// Builds the row of a record; `head` is the stream with the record in it.
    pub(super) fn new(record: &Encoded, head: &StreamHead) -> Self {
        // The server stores long values separately, so no record needs a blob.
        let (form, body) = match record.blob() {
            Some(bytes) => (Form::Inline, bytes),
            None => record.body(),
        };
        Self {
            seq: int(head.seq),
            version: record.version().cast_signed(),
            form: i16::try_from(form.code()).unwrap_or(i16::MAX),
            is_chunk: record.is_chunk,
            open_from: int(head.open.first().unwrap_or(0)),
            at: record.at,
            link: head.link.to_vec(),
            body: body.to_vec(),
        }
    }
}

/// An append that waits for its commit.
pub(super) struct AppendJob {
    pub(super) stream: u64,
    /// The expected newest record.
    pub(super) head: u64,
    pub(super) first_seq: u64,
    /// The stream after the append; its epoch is that of the claim.
    pub(super) next: StreamHead,
    pub(super) rows: Vec<AppendRow>,
    pub(super) puts: Vec<RowWrite>,
    pub(super) settlements: Vec<Settlement>,
    pub(super) at: DateTime<Utc>,
    pub(super) slot: OwnedMutexGuard<Option<StreamHead>>,
    /// Notified of the commit.
    pub(super) notifier: Option<Arc<StreamNotifier>>,
    pub(super) answer: oneshot::Sender<DbResult<()>>,
}

impl AppendJob {
    /// Returns whether it can share a statement.
    fn is_plain(&self) -> bool {
        self.puts.is_empty() && self.settlements.is_empty() && !self.rows.is_empty()
    }

    fn bytes(&self) -> usize {
        self.rows.iter().map(|row| row.body.len()).sum()
    }

    /// Ends the append. The slot is updated even if the caller has stopped waiting.
    fn end(mut self, outcome: DbResult<()>) {
        *self.slot = None;
        if outcome.is_ok() {
            if let Some(notifier) = &self.notifier {
                notifier.committed(&self.next.key, Some(self.next.seq));
            }
            *self.slot = Some(self.next);
        }
        drop(self.slot);
        // The caller may have stopped waiting.
        let _ = self.answer.send(outcome);
    }
}

/// Passes appends to the tasks that write them.
#[derive(Debug)]
pub(crate) struct AppendQueue(mpsc::Sender<AppendJob>);

impl AppendQueue {
    /// Starts the tasks; they end with the queue.
    pub(crate) fn start(database: &Database) -> Self {
        let (sender, receiver) = mpsc::channel(MAX_GROUP * WRITERS);
        let receiver = Arc::new(Mutex::new(receiver));
        for _ in 0..WRITERS {
            tokio::spawn(write_all(Arc::clone(&receiver), database.clone()));
        }
        Self(sender)
    }

    pub(super) async fn send(&self, job: AppendJob) -> DbResult<()> {
        let sent = self.0.send(job).await;
        sent.map_err(|_| PostgresError::Closed.into())
    }
}

async fn write_all(receiver: Arc<Mutex<mpsc::Receiver<AppendJob>>>, database: Database) {
    loop {
        let mut jobs = Vec::new();
        if receiver.lock().await.recv_many(&mut jobs, MAX_GROUP).await == 0 {
            return;
        }
        let (plain, others): (Vec<_>, Vec<_>) = jobs.into_iter().partition(AppendJob::is_plain);
        let (mut group, mut bytes) = (Vec::new(), 0);
        for job in plain {
            bytes += job.bytes();
            group.push(job);
            if bytes >= MAX_GROUP_BYTES {
                write_plain(&database, std::mem::take(&mut group)).await;
                bytes = 0;
            }
        }
        write_plain(&database, group).await;
        for job in others {
            write_alone(&database, job).await;
        }
    }
}

/// Writes appends in one statement. If the server rejects it, each append has its own, so that one cannot fail the others.
async fn write_plain(database: &Database, mut jobs: Vec<AppendJob>) {
    if jobs.len() < 2 {
        if let Some(job) = jobs.pop() {
            write_alone(database, job).await;
        }
        return;
    }
    let written = async {
        let client = database.client().await?;
        insert(&client, database.commit_base, &jobs).await
    };
    match written.await {
        Ok(written) => {
            for (index, job) in jobs.into_iter().enumerate() {
                let outcome = if written.contains(&index) {
                    Ok(())
                } else {
                    Err(refusal(database, &job).await)
                };
                job.end(outcome);
            }
        }
        Err(error) if error.is_rolled_back() => {
            for job in jobs {
                write_alone(database, job).await;
            }
        }
        // The statement may be committed: each owner reads its stream again.
        Err(error) => jobs.into_iter().for_each(|job| job.end(Err(error.clone()))),
    }
}

async fn write_alone(database: &Database, job: AppendJob) {
    let mut conflicts = 0;
    let outcome = loop {
        match write(database, &job).await {
            Err(DbError::Conflict(_)) if conflicts < MAX_CONFLICTS => conflicts += 1,
            outcome => break outcome,
        }
    };
    job.end(outcome);
}

async fn write(database: &Database, job: &AppendJob) -> DbResult<()> {
    let mut client = database.client().await?;
    let jobs = std::slice::from_ref(job);
    let is_written = if job.is_plain() {
        !insert(&client, database.commit_base, jobs)
            .await?
            .is_empty()
    } else {
        let transaction = client.transaction().await?;
        let is_written = if job.rows.is_empty() {
            lock(&transaction, job).await?
        } else {
            let written = insert(&transaction, database.commit_base, jobs);
            !written.await?.is_empty()
        };
        if is_written {
            host_records::apply(&transaction, &job.puts, job.at).await?;
            ledger::settle(&transaction, &job.settlements).await?;
            transaction.commit().await?;
        }
        is_written
    };
    drop(client);
    if is_written {
        Ok(())
    } else {
        Err(refusal(database, job).await)
    }
}

/// Locks the stream of an append without records; returns whether it may append.
async fn lock(client: &impl GenericClient, job: &AppendJob) -> DbResult<bool> {
    let sql = "SELECT 1 FROM streams WHERE id = $1 AND epoch = $2 AND head = $3 AND NOT removed FOR UPDATE";
    let statement = client.prepare_cached(sql).await?;
    let (stream, epoch, head) = (int(job.stream), int(job.next.epoch), int(job.head));
    let row = client
        .query_opt(&statement, &[&stream, &epoch, &head])
        .await?;
    Ok(row.is_some())
}

/// Writes the records of appends whose claims and numbers are right; returns the indexes of these appends.
pub(super) async fn insert(
    client: &impl GenericClient,
    commit_base: i64,
    jobs: &[AppendJob],
) -> DbResult<HashSet<usize>> {
    let streams = jobs.iter().map(|job| StreamChange {
        stream: job.stream,
        head: job.head,
        next: &job.next,
        rows: &job.rows,
    });
    insert_changes(client, commit_base, streams).await
}

/// Records to write into a stream.
pub(super) struct StreamChange<'a> {
    pub(super) stream: u64,
    /// The expected newest record.
    pub(super) head: u64,
    /// The stream after the change.
    pub(super) next: &'a StreamHead,
    pub(super) rows: &'a [AppendRow],
}

const INSERT: &str = "\
WITH changes AS (
    SELECT * FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::bigint[], $5::bytea[], $6::bigint[])
    WITH ORDINALITY AS change (stream, epoch, head, next_head, chain, open_from, job)
), changed AS (
    UPDATE streams SET head = next_head, chain = changes.chain, open_from = nullif(changes.open_from, 0) FROM changes
    WHERE id = stream AND streams.epoch = changes.epoch AND streams.head = changes.head AND NOT removed RETURNING id, job
), written AS (
    INSERT INTO records (stream, seq, commit_number, commit_index, version, form, chunk, open_from, at, chain, body)
    SELECT id, seq, $7 + pg_current_xact_id()::text::bigint, index, version, form, chunk, open_from, at, chain, body
    FROM unnest($8::bigint[], $9::bigint[], $10::int[], $11::smallint[], $12::bool[], $13::bigint[], $14::bigint[], $15::bytea[],
        $16::bytea[])
    WITH ORDINALITY AS record (job, seq, version, form, chunk, open_from, at, chain, body, index) JOIN changed USING (job)
)
SELECT job FROM changed";

/// Writes records where the row of the stream has the right epoch and head; returns the indexes of these streams.
pub(super) async fn insert_changes<'a>(
    client: &impl GenericClient,
    commit_base: i64,
    changes: impl Iterator<Item = StreamChange<'a>>,
) -> DbResult<HashSet<usize>> {
    let (mut streams, mut epochs, mut heads) = (Vec::new(), Vec::new(), Vec::new());
    let (mut next_heads, mut links, mut open) = (Vec::new(), Vec::new(), Vec::new());
    let (mut of, mut seqs, mut versions) = (Vec::new(), Vec::new(), Vec::new());
    let (mut forms, mut chunks, mut opens) = (Vec::new(), Vec::new(), Vec::new());
    let (mut at, mut chains, mut bodies) = (Vec::new(), Vec::new(), Vec::new());
    for (job, change) in (1_i64..).zip(changes) {
        streams.push(int(change.stream));
        epochs.push(int(change.next.epoch));
        heads.push(int(change.head));
        next_heads.push(int(change.next.seq));
        links.push(change.next.link.to_vec());
        open.push(int(change.next.open.first().unwrap_or(0)));
        for row in change.rows {
            of.push(job);
            seqs.push(row.seq);
            versions.push(row.version);
            forms.push(row.form);
            chunks.push(row.is_chunk);
            opens.push(row.open_from);
            at.push(row.at);
            chains.push(&row.link);
            bodies.push(&row.body);
        }
    }
    let statement = client.prepare_cached(INSERT).await?;
    let rows = client
        .query(
            &statement,
            &[
                &streams,
                &epochs,
                &heads,
                &next_heads,
                &links,
                &open,
                &commit_base,
                &of,
                &seqs,
                &versions,
                &forms,
                &chunks,
                &opens,
                &at,
                &chains,
                &bodies,
            ],
        )
        .await?;
    let index = |row: &tokio_postgres::Row| {
        let job = uint(row.try_get(0)?).saturating_sub(1);
        Ok(usize::try_from(job).unwrap_or(usize::MAX))
    };
    rows.iter().map(index).collect()
}

/// Returns why the row of a stream did not permit an append.
async fn refusal(database: &Database, job: &AppendJob) -> DbError {
    match check(database, job).await {
        Err(error) => error,
        // The row changed between the append and this look-up.
        Ok(()) => {
            let what = "another transaction changed the stream during the append";
            PostgresError::Database(what.to_owned()).into()
        }
    }
}

/// Checks that the row of a stream permits an append.
async fn check(database: &Database, job: &AppendJob) -> DbResult<()> {
    let client = database.client().await?;
    let sql = "SELECT epoch, head FROM streams WHERE id = $1 AND NOT removed";
    let statement = client.prepare_cached(sql).await?;
    let row = client.query_opt(&statement, &[&int(job.stream)]).await?;
    let row = row.ok_or(JournalError::Removed(job.stream))?;
    let claim = Claim {
        stream: job.stream,
        epoch: job.next.epoch,
        head: job.head,
    };
    let found = (uint(row.try_get(0)?), uint(row.try_get(1)?));
    Ok(claim.check_append(found, job.first_seq, std::iter::empty())?)
}
