//! The store that a conversation has opened itself.

#[cfg(feature = "sqlite")]
use windlass_store::sqlite::{SqliteOptions, SqliteStore};

#[cfg(feature = "sqlite")]
use super::error::ConversationError;
#[cfg(feature = "sqlite")]
use crate::backends::RuntimeBackends;

/// The storage directory that a builder was configured with.
#[cfg(feature = "sqlite")]
#[derive(Debug)]
pub(super) struct DiskStoreOptions {
    pub(super) options: SqliteOptions,
    pub(super) is_read_only: bool,
}

#[cfg(feature = "sqlite")]
impl DiskStoreOptions {
    pub(super) async fn open(self) -> Result<(RuntimeBackends, OpenStore), ConversationError> {
        let store = if self.is_read_only {
            SqliteStore::open_read_only(self.options).await?
        } else {
            SqliteStore::open(self.options).await?
        };
        let backends = RuntimeBackends::on_sqlite(&store);
        let open = OpenStore {
            sqlite: Some(store),
            is_read_only: self.is_read_only,
        };
        Ok((backends, open))
    }
}

/// The store to close with a conversation; none if the program provided it.
#[derive(Debug, Clone, Default)]
pub(super) struct OpenStore {
    #[cfg(feature = "sqlite")]
    sqlite: Option<SqliteStore>,
    is_read_only: bool,
}

impl OpenStore {
    pub(super) fn is_read_only(&self) -> bool {
        self.is_read_only
    }

    #[cfg(feature = "sqlite")]
    pub(super) async fn close(self) {
        if let Some(store) = self.sqlite {
            store.close().await;
        }
    }

    #[cfg(not(feature = "sqlite"))]
    #[expect(clippy::unused_async, reason = "closing a store takes time")]
    pub(super) async fn close(self) {}
}
