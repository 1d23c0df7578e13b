//! The same test on every store.

use super::Setup;

/// Runs a test in memory and, where there is one, on a database.
pub(crate) async fn each_store(test: impl AsyncFn(Setup)) {
    test(Setup::default()).await;
    #[cfg(feature = "sqlite")]
    {
        use windlass_runtime::{RuntimeBackends, SecretsKey, SqliteOptions, SqliteStore};
        let directory = tempfile::tempdir().expect("a directory");
        let options = SqliteOptions::new(directory.path().join("data"))
            .with_secrets_key(SecretsKey::new([7; 32]));
        let store = SqliteStore::open(options).await.expect("a database");
        test(Setup::default().backends(RuntimeBackends::on_sqlite(&store))).await;
        store.close().await;
    }
}
