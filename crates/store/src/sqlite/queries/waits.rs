//! Calls that wait for an approval, an answer or a tool result.

use std::collections::BTreeMap;

use rusqlite::Connection;
use windlass_core::typed_id::ExecId;

use super::QuerySnapshot;
use super::load::open_waits;
use super::tables::{WAIT, wait};
use crate::journal::StreamKey;
use crate::queries::WaitRow;
use crate::sqlite::cached::CachedStatements;
use crate::sqlite::error::DbResult;
use crate::sqlite::journal::{find, named};
use crate::sqlite::numbers::first_number;

/// The streams in which something waits.
pub(super) const WAITING: &str =
    "SELECT DISTINCT stream FROM waits INDEXED BY waits_open WHERE is_open = 1";

/// A wait by its call.
pub(super) const BY_CALL: &str =
    "waits CROSS JOIN streams ON streams.id = waits.stream WHERE exec = ?1";

impl QuerySnapshot<'_> {
    pub(super) fn waits(&self, key: Option<&StreamKey>) -> DbResult<Vec<WaitRow>> {
        let streams = match key {
            Some(key) => {
                let found = find(&self.db, key)?;
                found
                    .map(|found| (found.stream, key.clone()))
                    .into_iter()
                    .collect()
            }
            None => self.waiting()?,
        };
        let mut waits = Vec::new();
        for (stream, key) in streams {
            waits.extend(open_waits(&self.db, &self.newer, stream, &key)?);
        }
        Ok(waits)
    }

    /// Returns the threads in which something may wait.
    fn waiting(&self) -> DbResult<BTreeMap<u64, StreamKey>> {
        let stored = self.db.list_rows(WAITING, [], first_number)?;
        let mut streams: Vec<u64> = stored;
        streams.extend(self.newer.waits.keys().map(|(stream, _)| *stream));
        let mut named_ones = BTreeMap::new();
        for stream in streams {
            let name = named(&self.db, stream)?;
            named_ones.extend(name.map(|name| (stream, name)));
        }
        Ok(named_ones)
    }

    pub(super) fn wait(&self, exec_id: ExecId) -> DbResult<Option<WaitRow>> {
        let fresh = self.newer.waits.iter();
        for ((stream, _), wait) in fresh.filter(|((_, exec), _)| *exec == exec_id) {
            if self.exists(*stream)? {
                return Ok(Some(wait.clone()));
            }
        }
        stored(&self.db, exec_id)
    }
}

fn stored(db: &Connection, exec_id: ExecId) -> DbResult<Option<WaitRow>> {
    let query = format!("SELECT {WAIT}, streams.key FROM {BY_CALL}");
    let mut statement = db.prepare_cached(&query)?;
    let mut rows = statement.query([exec_id.uuid().into_bytes()])?;
    let Some(row) = rows.next()? else {
        return Ok(None);
    };
    let key = StreamKey::new(row.get::<_, String>(5)?);
    Ok(Some(wait(row, &key)?))
}
