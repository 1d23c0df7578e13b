//! Harnesses, agents and sessions of an export. A record that exists is never overwritten: it may be newer than the export.

use serde_json::Value;

use crate::sqlite::error::DbResult;
use crate::sqlite::stores::records::{StoredEntity, find_json};
use crate::sqlite::verify::verify_report::Finding;
use crate::sqlite::write::writer::WriteContext;

/// The import's result for the records of one kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ImportedRecords {
    /// Records that were absent and were inserted.
    pub inserted: u64,
    /// Records that existed with the same content.
    pub identical: u64,
    /// Records that existed with different content and were left unchanged; each has a finding.
    pub different: u64,
}

/// Inserts a record where none has its id.
pub(super) fn insert<T: StoredEntity>(
    work: &mut WriteContext<'_>,
    record: &T,
    counts: &mut ImportedRecords,
    findings: &mut Vec<Finding>,
) -> DbResult<()> {
    let Some(text) = find_json(work.db, T::TABLE, record.uuid())? else {
        counts.inserted += 1;
        return record.put(work.db);
    };
    // Both are serialized by this version, so a field that a later version added does not make a difference.
    let existing: Option<T> = serde_json::from_str(&text).ok();
    let value = |record: &T| serde_json::to_value(record).unwrap_or(Value::Null);
    if existing.as_ref().map(value) == Some(value(record)) {
        counts.identical += 1;
        return Ok(());
    }
    counts.different += 1;
    let name = existing.as_ref().unwrap_or(record).describe();
    findings.push(Finding::general(format!(
        "{name} already exists with different content and was left unchanged"
    )));
    Ok(())
}
