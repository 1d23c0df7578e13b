//! What all parts of a store share.

use std::sync::Arc;

use super::doorbells::Doorbells;
use super::error::{Fault, SqliteError};
use super::options::SqliteRetention;
use super::page_check::Check;
use super::queries::tail::NewerRows;
use super::readers::Readers;
use super::secrets::SecretCipher;
use super::writer::Writer;
use crate::durable::chain::Chain;

#[derive(Debug)]
pub(crate) struct Inner {
    pub(crate) chain: Chain,
    pub(crate) vault: SecretCipher,
    pub(crate) retention: SqliteRetention,
    pub(crate) expendable_records: &'static [&'static str],
    pub(crate) readers: Arc<Readers>,
    pub(crate) doorbells: Arc<Doorbells>,
    /// The rows that are newer than the tables.
    pub(crate) tail: Arc<NewerRows>,
    /// Missing where the store was opened for reading only.
    pub(crate) writer: Option<Writer>,
    /// What is known of the structure; missing where the store was opened for reading only.
    pub(crate) check: Option<Check>,
}

impl Inner {
    pub(crate) fn writer(&self) -> Result<&Writer, Fault> {
        self.writer.as_ref().ok_or(SqliteError::ReadOnly.into())
    }
}
