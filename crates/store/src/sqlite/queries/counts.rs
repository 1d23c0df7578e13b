//! How many threads there are.

use super::QuerySnapshot;
use super::tables::{ARCHIVED, CURRENT, kind};
use crate::queries::{Counts, ThreadState};
use crate::sqlite::cached::CachedStatements;
use crate::sqlite::error::DbResult;
use crate::sqlite::numbers::{first_number, int, uint};

pub(super) const BY_KIND: &str =
    "SELECT kind, count(*) FROM threads INDEXED BY threads_by_time GROUP BY kind";
pub(super) const OPEN: &str =
    "SELECT count(*) FROM threads INDEXED BY threads_open WHERE state > 0";
pub(super) const WAITING: &str =
    "SELECT count(*) FROM threads INDEXED BY threads_open WHERE state > 0 AND state = 2";

impl QuerySnapshot<'_> {
    pub(super) fn counts(&self) -> DbResult<Counts> {
        let mut counts = Counts::default();
        let mut statement = self.db.prepare_cached(BY_KIND)?;
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            *counts.of_kind(row.get(0)?) = uint(row, 1)?;
        }
        let count = |query| -> DbResult<u64> { Ok(self.db.get_row(query, [], first_number)?) };
        (counts.open, counts.waiting) = (count(OPEN)?, count(WAITING)?);
        self.count_newer(&mut counts)?;
        Ok(counts)
    }

    /// Replaces the counts of threads in the table by those of their newer rows.
    fn count_newer(&self, counts: &mut Counts) -> DbResult<()> {
        let mut stored = self
            .db
            .prepare_cached("SELECT kind, state FROM threads WHERE stream = ?1")?;
        for (stream, thread) in &self.newer.threads {
            let mut rows = stored.query([int(*stream)])?;
            if let Some(row) = rows.next()? {
                let (kind, state): (i64, i64) = (row.get(0)?, row.get(1)?);
                let of_kind = counts.of_kind(kind);
                *of_kind = of_kind.saturating_sub(1);
                counts.open = counts.open.saturating_sub(u64::from(state > 0));
                counts.waiting = counts.waiting.saturating_sub(u64::from(state == 2));
            }
            if self.exists(*stream)? {
                *counts.of_kind(kind(thread)) += 1;
                counts.open += u64::from(thread.state != ThreadState::Idle);
                counts.waiting += u64::from(thread.state == ThreadState::Waiting);
            }
        }
        Ok(())
    }
}

impl Counts {
    fn of_kind(&mut self, kind: i64) -> &mut u64 {
        match kind {
            CURRENT => &mut self.current,
            ARCHIVED => &mut self.archived,
            _ => &mut self.unrecorded,
        }
    }
}
