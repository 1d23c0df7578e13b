//! Reduces the data that outlives pruned records.
//!
//! Each pruned record leaves a digest, and each turn its rows for lists. They would eventually fill the database. If the store exceeds its size
//! limit, they are deleted before any further record is. The link in the chain of a range without digests stays: later records are still checked
//! against it, and readers still learn which numbers were pruned.

use rusqlite::Connection;

use crate::durable::chain::Digest;
use crate::sqlite::cached::CachedStatements;
use crate::sqlite::error::DbResult;
use crate::sqlite::numbers::{first_value, int, uint};

/// The number of ranges per step.
const STEP: u64 = 64;

/// A range of pruned records.
#[derive(Debug, Clone, PartialEq, Eq)]
struct PrunedGap {
    first: u64,
    last: u64,
    pruned_at: i64,
    has_turns: bool,
    has_digests: bool,
    chain: Digest,
}

/// Returns the next stream with pruned ranges, after a given one.
pub(crate) fn next_stream(reader: &Connection, after: u64) -> DbResult<Option<u64>> {
    let next: Option<i64> = reader.get_row(
        "SELECT min(stream) FROM pruned WHERE stream > ?1",
        [int(after)],
        first_value,
    )?;
    Ok(next.map(i64::cast_unsigned))
}

/// Deletes the digests of some ranges of a stream after a number, and merges adjacent ranges; returns the number to continue from.
pub(crate) fn condense(db: &Connection, stream: u64, after: u64) -> DbResult<Option<u64>> {
    let gaps = some(db, stream, after)?;
    let is_last = (gaps.len() as u64) < STEP;
    for run in gaps.chunk_by(|a, b| a.last + 1 == b.first) {
        for joined in join(run) {
            replace(db, stream, run, &joined)?;
        }
    }
    // Continues after all visited ranges; one that is adjacent to the last of them is merged in the next pass.
    let last = gaps.last().map(|gap| gap.last);
    Ok(last.filter(|_| !is_last))
}

/// Merges adjacent ranges up to the last one of whole turns. Later ranges are text chunks of turns that still exist.
fn join(run: &[PrunedGap]) -> Vec<PrunedGap> {
    let turns = run.iter().rposition(|gap| gap.has_turns);
    let (joined, rest) = run.split_at(turns.map_or(0, |at| at + 1));
    let whole = joined
        .first()
        .zip(joined.last())
        .map(|(first, last)| PrunedGap {
            first: first.first,
            has_digests: false,
            ..last.clone()
        });
    let rest = rest.iter().map(|gap| PrunedGap {
        has_digests: false,
        ..gap.clone()
    });
    whole.into_iter().chain(rest).collect()
}

/// Replaces ranges by their merged range.
fn replace(db: &Connection, stream: u64, run: &[PrunedGap], joined: &PrunedGap) -> DbResult<()> {
    if run.contains(joined) {
        return Ok(());
    }
    db.execute_cached(
        "DELETE FROM pruned WHERE stream = ?1 AND first BETWEEN ?2 AND ?3",
        [stream, joined.first, joined.last].map(int),
    )?;
    let sql = "INSERT INTO pruned (stream, first, last, pruned_at, chain, digests, turns) \
             VALUES (?1, ?2, ?3, ?4, ?5, x'', ?6)";
    db.execute_cached(
        sql,
        (
            int(stream),
            int(joined.first),
            int(joined.last),
            joined.pruned_at,
            joined.chain,
            joined.has_turns,
        ),
    )?;
    Ok(())
}

fn some(db: &Connection, stream: u64, after: u64) -> DbResult<Vec<PrunedGap>> {
    let sql = "SELECT first, last, pruned_at, turns, length(digests) > 0, chain FROM pruned \
         WHERE stream = ?1 AND first > ?2 ORDER BY first LIMIT ?3";
    Ok(db.list_rows(sql, [stream, after, STEP].map(int), |row| {
        Ok(PrunedGap {
            first: uint(row, 0)?,
            last: uint(row, 1)?,
            pruned_at: row.get(2)?,
            has_turns: row.get(3)?,
            has_digests: row.get(4)?,
            chain: row.get(5)?,
        })
    })?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gap(first: u64, last: u64, has_turns: bool) -> PrunedGap {
        PrunedGap {
            first,
            last,
            pruned_at: 0,
            has_turns,
            has_digests: true,
            chain: [u8::try_from(last).unwrap(); 32],
        }
    }

    #[test]
    fn ranges_are_joined_up_to_the_last_whole_turn() {
        let run = [
            gap(1, 3, true),
            gap(4, 5, false),
            gap(6, 9, true),
            gap(10, 11, false),
        ];
        let joined = join(&run);
        let without = |gap: PrunedGap| PrunedGap {
            has_digests: false,
            ..gap
        };
        assert_eq!(
            joined[0],
            without(PrunedGap {
                first: 1,
                ..gap(6, 9, true)
            })
        );
        assert_eq!(joined[1..], [without(gap(10, 11, false))]);
        let text = [gap(4, 5, false), gap(6, 6, false)];
        assert_eq!(join(&text), text.map(without));
    }
}
