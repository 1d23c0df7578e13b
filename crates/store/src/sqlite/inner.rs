//! What all parts of a store share.

use std::sync::Arc;

use super::afterwards::Check;
use super::chain::Chain;
use super::doorbells::Doorbells;
use super::error::{Fault, SqliteError};
use super::options::SqliteRetention;
use super::projection::{Folds, Newest};
use super::readers::Readers;
use super::run_rows::NewestRuns;
use super::secrets::Vault;
use super::writer::Writer;
use crate::journal::turn_runs::RunRow;
use crate::runs::KeptRun;

#[derive(Debug)]
pub(crate) struct Inner {
    pub(crate) chain: Chain,
    pub(crate) vault: Vault,
    pub(crate) retention: SqliteRetention,
    pub(crate) readers: Arc<Readers>,
    pub(crate) doorbells: Arc<Doorbells>,
    /// The folds of streams, for those who append.
    pub(crate) folds: Arc<Folds>,
    /// The newest rows of threads; missing where another process may write.
    pub(crate) newest: Option<Arc<Newest>>,
    /// The newest rows of turns as runs; missing likewise.
    pub(crate) newest_turn_runs: Option<Arc<NewestRuns<RunRow>>>,
    /// The newest rows of runs from outside; missing likewise.
    pub(crate) newest_runs: Option<Arc<NewestRuns<KeptRun>>>,
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
