//! Rows of records, and the earlier records that they refer to.

use std::collections::HashMap;
use std::convert::Infallible;

use deadpool_postgres::GenericClient;
use tokio_postgres::Row;
use windlass_store::durable::chain::Digest;
use windlass_store::durable::lineage::Lineage;
use windlass_store::durable::record::{RecordBuffer, RecordSource, StoredRecord, referenced};

use crate::error::DbResult;
use crate::numbers::{int, uint};

/// A row of a record. Its columns begin with [`COLUMNS`].
pub(super) struct RecordRow {
    pub(super) stream: u64,
    pub(super) seq: u64,
    version: u32,
    chain: Digest,
    form: i64,
    body: Vec<u8>,
}

/// The columns of [`RecordRow`].
macro_rules! columns {
    () => {
        "stream, seq, version, form, chain, body"
    };
}
pub(super) use columns;

impl RecordRow {
    pub(super) fn new(row: &Row) -> Result<Self, tokio_postgres::Error> {
        Ok(Self {
            stream: uint(row.try_get(0)?),
            seq: uint(row.try_get(1)?),
            version: row.try_get::<_, i32>(2)?.cast_unsigned(),
            form: row.try_get::<_, i16>(3)?.into(),
            // A link of another length is treated like a wrong one.
            chain: (row.try_get::<_, &[u8]>(4)?).try_into().unwrap_or_default(),
            body: row.try_get(5)?,
        })
    }
}

/// Records of any streams, together with those that they refer to.
pub(super) struct StreamRecords {
    pub(super) rows: Vec<RecordRow>,
    /// Form and body of the referenced records that are not among the rows.
    referenced: HashMap<(u64, u64), (i64, Vec<u8>)>,
    /// The index of each row.
    indexes: HashMap<(u64, u64), usize>,
    buffer: RecordBuffer,
}

impl StreamRecords {
    /// Reads the records that rows refer to.
    pub(super) async fn load(client: &impl GenericClient, rows: &[Row]) -> DbResult<Self> {
        let rows = rows.iter().map(RecordRow::new);
        let rows: Vec<_> = rows.collect::<Result<_, _>>()?;
        let at = |(index, row): (usize, &RecordRow)| ((row.stream, row.seq), index);
        let indexes: HashMap<_, _> = rows.iter().enumerate().map(at).collect();
        let mut missing: Vec<(u64, u64)> = Vec::new();
        for row in &rows {
            let seqs = referenced(row.form, &row.body).into_iter();
            missing.extend(seqs.map(|seq| (row.stream, seq)));
        }
        missing.sort_unstable();
        missing.dedup();
        missing.retain(|at| !indexes.contains_key(at));
        Ok(Self {
            referenced: load(client, &missing).await?,
            rows,
            indexes,
            buffer: RecordBuffer::default(),
        })
    }

    /// Returns the record of a row, with all references resolved.
    pub(super) fn stored(&mut self, index: usize) -> StoredRecord<'_> {
        let row = &self.rows[index];
        let source = Source {
            stream: row.stream,
            rows: &self.rows,
            indexes: &self.indexes,
            referenced: &self.referenced,
        };
        let head = (row.seq, row.version, row.chain);
        let Ok(stored) = StoredRecord::new(head, (row.form, &row.body), &source, &mut self.buffer);
        stored
    }
}

async fn load(
    client: &impl GenericClient,
    at: &[(u64, u64)],
) -> DbResult<HashMap<(u64, u64), (i64, Vec<u8>)>> {
    if at.is_empty() {
        return Ok(HashMap::new());
    }
    let sql = "SELECT stream, seq, form, body FROM records \
        JOIN unnest($1::bigint[], $2::bigint[]) AS wanted (stream, seq) USING (stream, seq)";
    let statement = client.prepare_cached(sql).await?;
    let (streams, seqs): (Vec<i64>, Vec<i64>) = at
        .iter()
        .map(|(stream, seq)| (int(*stream), int(*seq)))
        .unzip();
    let rows = client.query(&statement, &[&streams, &seqs]).await?;
    let record = |row: &Row| {
        let at = (uint(row.try_get(0)?), uint(row.try_get(1)?));
        Ok((at, (row.try_get::<_, i16>(2)?.into(), row.try_get(3)?)))
    };
    rows.iter().map(record).collect()
}

struct Source<'a> {
    stream: u64,
    rows: &'a [RecordRow],
    indexes: &'a HashMap<(u64, u64), usize>,
    referenced: &'a HashMap<(u64, u64), (i64, Vec<u8>)>,
}

impl RecordSource for Source<'_> {
    type Error = Infallible;

    fn stream(&self) -> Result<i64, Infallible> {
        Ok(int(self.stream))
    }

    /// Long bodies are in their rows here.
    fn blob(&self, _: &[u8]) -> Result<Option<Vec<u8>>, Infallible> {
        Ok(None)
    }

    fn record(&self, seq: u64) -> Result<Option<(i64, Vec<u8>)>, Infallible> {
        let at = (self.stream, seq);
        let row = self.indexes.get(&at).map(|index| &self.rows[*index]);
        let row = row.map(|row| (row.form, row.body.clone()));
        Ok(row.or_else(|| self.referenced.get(&at).cloned()))
    }
}

/// Reads records of a stream after a number and up to another one, at most `limit`: all of them, or without text chunks.
pub(super) async fn between(
    client: &impl GenericClient,
    lineage: &Lineage,
    (after, upto): (u64, u64),
    chunks: Chunks,
    limit: usize,
) -> DbResult<StreamRecords> {
    let sql = match chunks {
        Chunks::Included => concat!(
            "SELECT ",
            columns!(),
            " FROM records WHERE stream = $1 AND seq > $2 AND seq <= $3 ORDER BY seq LIMIT $4"
        ),
        Chunks::Omitted => concat!(
            "SELECT ",
            columns!(),
            " FROM records WHERE stream = $1 AND seq > $2 AND seq <= $3 AND NOT chunk ORDER BY seq LIMIT $4"
        ),
    };
    let statement = client.prepare_cached(sql).await?;
    let mut rows = Vec::new();
    for part in &lineage.parts {
        let (first, last) = (after.max(part.after), upto.min(part.last));
        if first >= last || rows.len() >= limit {
            continue;
        }
        let limit = int((limit - rows.len()) as u64);
        let parameters = [int(part.stream), int(first), int(last), limit];
        let [stream, first, last, limit] = &parameters;
        rows.extend(
            client
                .query(&statement, &[stream, first, last, limit])
                .await?,
        );
    }
    StreamRecords::load(client, &rows).await
}

/// Whether streamed text chunks are read.
#[derive(Debug, Clone, Copy)]
pub(super) enum Chunks {
    Included,
    Omitted,
}
