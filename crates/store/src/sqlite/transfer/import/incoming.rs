//! A stream during its import.

use crate::durable::chain::Digest;
use crate::durable::record::Encoded;
use crate::durable::window::Window;
use crate::journal::StreamKey;
use crate::sqlite::cached::CachedStatements;
use crate::sqlite::error::DbResult;
use crate::sqlite::journal::Insert;
use crate::sqlite::journal::heads::Head;
use crate::sqlite::numbers::int;
use crate::sqlite::verify::verify_report::Finding;
use crate::sqlite::write::writer::WriteContext;

/// A stream during its import.
pub(super) struct Incoming {
    pub(super) key: StreamKey,
    /// The reason for omitting it; nothing is written from then on.
    pub(super) refused: Option<Finding>,
    pub(super) number: u64,
    pub(super) seq: u64,
    pub(super) records: u64,
    pub(super) total: blake3::Hasher,
    pub(super) waiting: Vec<ImportedPiece>,
    /// The records that the next ones may refer to.
    pub(super) window: Window,
    /// Whether the stream is imported only for its forks.
    pub(super) is_retained: bool,
}

/// The next part of the stream.
pub(super) enum ImportedPiece {
    Record(Encoded),
    /// Digests of pruned records, and whether they form whole turns.
    Gap(Vec<Digest>, bool),
    /// Records of which only the link of the last one is known.
    Condensed {
        last: u64,
        chain: Digest,
        turns: bool,
    },
}

impl Incoming {
    pub(super) fn refuse(&mut self, seq: u64, what: &str) {
        let key = &self.key;
        self.refused
            .get_or_insert_with(|| Finding::of_record(key, seq, what));
    }
}

/// Writes the next pieces of a stream.
pub(super) fn write(
    work: &mut WriteContext<'_>,
    stream: u64,
    pieces: Vec<ImportedPiece>,
) -> DbResult<()> {
    let mut head: Head = work.state.heads.get(work.db, stream)?.clone();
    let mut insert = Insert::new(work.db)?;
    for piece in &pieces {
        match piece {
            ImportedPiece::Record(record) => {
                head.advance(work.state.heads.chain(), &record.digest);
                head.open.apply(head.seq, record.turn);
                insert.run(work.state, stream, &head, record)?;
            }
            ImportedPiece::Gap(digests, has_turns) => {
                let first = head.seq + 1;
                for digest in digests {
                    head.advance(work.state.heads.chain(), digest);
                }
                let digests = digests.as_flattened();
                put_gap(work, stream, first, &head, (digests, *has_turns))?;
            }
            ImportedPiece::Condensed { last, chain, turns } => {
                let first = head.seq + 1;
                (head.seq, head.chain) = (*last, *chain);
                put_gap(work, stream, first, &head, (&[], *turns))?;
            }
        }
    }
    insert.end()?;
    work.state.heads.put(stream, head);
    Ok(())
}

/// Notes a range of pruned records that ends where the stream now does.
fn put_gap(
    work: &WriteContext<'_>,
    stream: u64,
    first: u64,
    head: &Head,
    (digests, has_turns): (&[u8], bool),
) -> DbResult<()> {
    let sql = "INSERT INTO pruned (stream, first, last, pruned_at, chain, digests, turns) \
             VALUES (?1, ?2, ?3, unixepoch() * 1000, ?4, ?5, ?6)";
    work.db.execute_cached(
        sql,
        (
            int(stream),
            int(first),
            int(head.seq),
            head.chain,
            digests,
            has_turns,
        ),
    )?;
    Ok(())
}
