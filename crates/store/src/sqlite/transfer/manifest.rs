//! The manifest of a backup.

use std::collections::BTreeMap;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::staging::{private, read_small};
use crate::sqlite::error::SqliteError;

/// The name of the manifest, which is written last.
pub(crate) const FILE: &str = "backup.json";
/// The database in a backup.
pub(crate) const DATABASE: &str = "windlass.db";
/// The version of a backup's form.
pub(crate) const FORMAT: u32 = 1;
const MAX_BYTES: u64 = 1024 * 1024;

/// The contents and the origin of a backup.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Manifest {
    /// The version of the form; it is read before anything else.
    pub(crate) windlass_backup: u32,
    /// Name and version of the program that created it.
    pub(crate) made_by: String,
    /// When, in RFC 3339.
    pub(crate) made_at: String,
    /// The version of the tables.
    pub(crate) schema: u32,
    /// How many commits the database had seen.
    pub(crate) commits: u64,
    /// Every file but this one.
    pub(crate) files: BTreeMap<String, BackupFile>,
}

/// A file of a backup.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct BackupFile {
    pub(crate) bytes: u64,
    /// BLAKE3 of the content, in hex.
    pub(crate) digest: String,
}

/// Why a manifest cannot be read.
#[derive(Debug)]
pub(crate) enum Unreadable {
    /// The directory contains no manifest.
    Missing,
    /// A format version that this program does not support.
    Form(u64),
    Other(String),
}

impl Manifest {
    pub(crate) fn write(&self, directory: &Path) -> Result<(), SqliteError> {
        let path = directory.join(FILE);
        let written = serde_json::to_vec_pretty(self)
            .map_err(std::io::Error::from)
            .and_then(|text| {
                let mut file = private().open(&path)?;
                std::io::Write::write_all(&mut file, &text)?;
                file.sync_all()
            });
        written.map_err(SqliteError::io("write", &path))
    }

    pub(crate) fn read(directory: &Path) -> Result<Self, Unreadable> {
        let bytes =
            read_small(&directory.join(FILE), MAX_BYTES).map_err(|error| match error.kind() {
                std::io::ErrorKind::NotFound | std::io::ErrorKind::NotADirectory => {
                    Unreadable::Missing
                }
                _ => Unreadable::Other(error.to_string()),
            })?;
        let other = |error: serde_json::Error| Unreadable::Other(error.to_string());
        let value: serde_json::Value = serde_json::from_slice(&bytes).map_err(other)?;
        match value["windlass_backup"].as_u64() {
            Some(form) if form == u64::from(FORMAT) => serde_json::from_value(value).map_err(other),
            Some(form) => Err(Unreadable::Form(form)),
            None => Err(Unreadable::Other("it names no version".to_owned())),
        }
    }
}
