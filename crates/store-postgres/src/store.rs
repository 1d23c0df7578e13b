//! A store: its connections and the tasks that append and notify.

use std::sync::Arc;

use deadpool_postgres::{Manager, ManagerConfig, Object, Pool, RecyclingMethod, Runtime};
use parking_lot::Mutex;
use std::time::Duration;
use tokio::task::JoinHandle;
use tokio_postgres::{IsolationLevel, NoTls};
use windlass_store::Cursors;
use windlass_store::durable::chain::Chain;
use windlass_store::durable::window::Windows;

use crate::error::{DbResult, PostgresError, describe};
use crate::journal::{AppendQueue, Heads, PostgresJournal};
use crate::notify::{StreamNotifier, follow};
use crate::options::PostgresOptions;
use crate::{PostgresHostRecords, PostgresLedger, open};

/// How long an operation waits for a connection.
const MAX_WAIT: Duration = Duration::from_secs(30);

/// The stores in one schema of a database; clones share the connections.
#[derive(Debug, Clone)]
pub struct PostgresStore {
    inner: Arc<SharedState>,
}

impl PostgresStore {
    /// Connects, checks the database, and creates the schema if it does not exist.
    pub async fn open(options: PostgresOptions) -> Result<Self, PostgresError> {
        let config = options.config()?;
        let chain = Chain::new(options.chain_key.clone());
        let (mut client, connection) = config
            .connect(NoTls)
            .await
            .map_err(|error| PostgresError::Unreachable(describe(&error)))?;
        // The connection ends with its client.
        tokio::spawn(connection);
        let identity = open::prepare(&mut client, &options, &chain).await?;
        drop(client);
        let recycling_method = RecyclingMethod::Fast;
        let manager = ManagerConfig { recycling_method };
        let pool = Pool::builder(Manager::from_config(config.clone(), NoTls, manager))
            .max_size(options.connections.max(2))
            .wait_timeout(Some(MAX_WAIT))
            .runtime(Runtime::Tokio1)
            .build()
            .map_err(|error| PostgresError::Unreachable(error.to_string()))?;
        let notifier = Arc::new(StreamNotifier::default());
        let database = Database {
            pool,
            commit_base: identity.commit_base,
        };
        let following = follow(config, options.schema, Arc::clone(&notifier));
        Ok(Self {
            inner: Arc::new(SharedState {
                queue: AppendQueue::start(&database),
                database,
                chain,
                cursors: identity.cursors,
                heads: Heads::default(),
                windows: Mutex::default(),
                following: tokio::spawn(following),
                notifier,
            }),
        })
    }

    /// Returns the journal of this store.
    #[must_use]
    pub fn journal(&self) -> PostgresJournal {
        PostgresJournal {
            inner: Arc::clone(&self.inner),
        }
    }

    /// Returns the host's records.
    #[must_use]
    pub fn host_records(&self) -> PostgresHostRecords {
        PostgresHostRecords {
            database: self.inner.database.clone(),
        }
    }

    /// Returns the spending ledger.
    #[must_use]
    pub fn ledger(&self) -> PostgresLedger {
        PostgresLedger {
            database: self.inner.database.clone(),
        }
    }

    /// Closes the connections. All later operations fail.
    pub fn close(&self) {
        self.inner.database.pool.close();
        self.inner.following.abort();
    }
}

/// The parts that the stores share.
#[derive(Debug)]
pub(crate) struct SharedState {
    pub(crate) database: Database,
    pub(crate) chain: Chain,
    pub(crate) cursors: Cursors,
    pub(crate) heads: Heads,
    pub(crate) windows: Mutex<Windows>,
    pub(crate) queue: AppendQueue,
    pub(crate) notifier: Arc<StreamNotifier>,
    following: JoinHandle<()>,
}

impl Drop for SharedState {
    fn drop(&mut self) {
        self.following.abort();
    }
}

/// The connections to a database.
#[derive(Debug, Clone)]
pub(crate) struct Database {
    pool: Pool,
    /// Added to the ID of a transaction; the result is the number of its commit.
    pub(crate) commit_base: i64,
}

impl Database {
    pub(crate) async fn client(&self) -> DbResult<Object> {
        Ok(self.pool.get().await?)
    }
}

/// Begins a transaction whose queries all see the same state.
pub(crate) async fn snapshot(client: &mut Object) -> DbResult<deadpool_postgres::Transaction<'_>> {
    let builder = client.build_transaction();
    let builder = builder.isolation_level(IsolationLevel::RepeatableRead);
    Ok(builder.read_only(true).start().await?)
}
