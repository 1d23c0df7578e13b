//! Statements that a connection prepares once and caches.

use rusqlite::{CachedStatement, Connection, OptionalExtension, Params, Result, Row};

/// Runs a cached statement in one call.
pub(crate) trait CachedStatements {
    fn cached(&self, sql: &str) -> Result<CachedStatement<'_>>;

    /// Returns the number of changed rows.
    fn execute_cached(&self, sql: &str, parameters: impl Params) -> Result<usize> {
        self.cached(sql)?.execute(parameters)
    }

    fn has_rows(&self, sql: &str, parameters: impl Params) -> Result<bool> {
        self.cached(sql)?.exists(parameters)
    }

    /// Reads the first row; fails if there is none.
    fn get_row<T>(
        &self,
        sql: &str,
        parameters: impl Params,
        read: impl FnOnce(&Row<'_>) -> Result<T>,
    ) -> Result<T> {
        self.cached(sql)?.query_row(parameters, read)
    }

    /// Reads the first row, if there is one.
    fn find_row<T>(
        &self,
        sql: &str,
        parameters: impl Params,
        read: impl FnOnce(&Row<'_>) -> Result<T>,
    ) -> Result<Option<T>> {
        self.get_row(sql, parameters, read).optional()
    }

    fn list_rows<T>(
        &self,
        sql: &str,
        parameters: impl Params,
        read: impl FnMut(&Row<'_>) -> Result<T>,
    ) -> Result<Vec<T>> {
        self.cached(sql)?.query_map(parameters, read)?.collect()
    }
}

impl CachedStatements for Connection {
    fn cached(&self, sql: &str) -> Result<CachedStatement<'_>> {
        self.prepare_cached(sql)
    }
}
