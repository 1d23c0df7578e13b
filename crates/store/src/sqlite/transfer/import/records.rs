//! Harnesses, agents and sessions of an export. A record that exists is never overwritten: it may be newer than the export.

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use uuid::Uuid;
use windlass_core::agent::Agent;
use windlass_core::harness::Harness;
use windlass_core::session::Session;

use crate::sqlite::error::DbResult;
use crate::sqlite::stores::records;
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

pub(super) trait ImportableRecord: Serialize + DeserializeOwned {
    const TABLE: &'static str;

    fn uuid(&self) -> Uuid;
    /// Kind, ID and name of the record, for the operator.
    fn describe(&self) -> String;
    fn put(&self, work: &mut WriteContext<'_>) -> DbResult<()>;
}

/// Inserts a record where none has its id.
pub(super) fn insert<T: ImportableRecord>(
    work: &mut WriteContext<'_>,
    record: &T,
    counts: &mut ImportedRecords,
    findings: &mut Vec<Finding>,
) -> DbResult<()> {
    let Some(text) = records::text(work.db, T::TABLE, record.uuid())? else {
        counts.inserted += 1;
        return record.put(work);
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

impl ImportableRecord for Harness {
    const TABLE: &'static str = "harnesses";

    fn uuid(&self) -> Uuid {
        self.id.uuid()
    }

    fn describe(&self) -> String {
        format!("harness {} ({})", self.id, self.name)
    }

    fn put(&self, work: &mut WriteContext<'_>) -> DbResult<()> {
        records::put_harness(work, self)
    }
}

impl ImportableRecord for Agent {
    const TABLE: &'static str = "agents";

    fn uuid(&self) -> Uuid {
        self.public_id.uuid()
    }

    fn describe(&self) -> String {
        format!("agent {} ({})", self.public_id, self.name)
    }

    fn put(&self, work: &mut WriteContext<'_>) -> DbResult<()> {
        records::put_agent(work, self)
    }
}

impl ImportableRecord for Session {
    const TABLE: &'static str = "sessions";

    fn uuid(&self) -> Uuid {
        self.id.uuid()
    }

    fn describe(&self) -> String {
        let title = self.title.as_deref().unwrap_or("untitled");
        format!("session {} ({title})", self.id)
    }

    fn put(&self, work: &mut WriteContext<'_>) -> DbResult<()> {
        records::put_session(work, self)
    }
}
