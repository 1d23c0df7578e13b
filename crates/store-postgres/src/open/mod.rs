//! Opening a database: all checks first, then the schema.

use tokio_postgres::{Client, Transaction};
use uuid::Uuid;
use windlass_store::Cursors;
use windlass_store::durable::chain::Chain;

use crate::error::PostgresError;
use crate::options::PostgresOptions;

/// The newest version of the schema.
const VERSION: i32 = 1;

const CREATE: &str = include_str!("schema.sql");

/// The contents of the table `state` that a store uses.
#[derive(Debug)]
pub(crate) struct DatabaseIdentity {
    pub(crate) cursors: Cursors,
    pub(crate) commit_base: i64,
}

/// Checks the server and the schema, and creates the schema if it does not exist. Processes that open it at the same time wait for each other.
pub(crate) async fn prepare(
    client: &mut Client,
    options: &PostgresOptions,
    chain: &Chain,
) -> Result<DatabaseIdentity, PostgresError> {
    check_server(client).await?;
    let transaction = client.transaction().await?;
    let lock = "SELECT pg_advisory_xact_lock(hashtextextended('windlass schema ' || $1, 0))";
    transaction.execute(lock, &[&options.schema]).await?;
    if is_empty(&transaction, &options.schema).await? {
        create(&transaction, options, chain).await?;
    }
    let identity = identity(&transaction, options, chain).await?;
    transaction.commit().await?;
    Ok(identity)
}

/// Refuses a server that acknowledges commits before they are durable, or that changes texts.
async fn check_server(client: &Client) -> Result<(), PostgresError> {
    for setting in ["fsync", "full_page_writes", "synchronous_commit"] {
        let row = client
            .query_one("SELECT current_setting($1)", &[&setting])
            .await?;
        if row.try_get::<_, &str>(0)? == "off" {
            return Err(PostgresError::NotDurable(setting));
        }
    }
    let row = client
        .query_one("SELECT current_setting('server_encoding')", &[])
        .await?;
    match row.try_get(0)? {
        "UTF8" => Ok(()),
        other => Err(PostgresError::Encoding(other.to_owned())),
    }
}

/// Returns whether the schema is missing or contains no table.
async fn is_empty(transaction: &Transaction<'_>, schema: &str) -> Result<bool, PostgresError> {
    let sql = "SELECT NOT EXISTS (SELECT 1 FROM pg_class \
        WHERE relnamespace = (SELECT oid FROM pg_namespace WHERE nspname = $1))";
    Ok(transaction.query_one(sql, &[&schema]).await?.try_get(0)?)
}

async fn create(
    transaction: &Transaction<'_>,
    options: &PostgresOptions,
    chain: &Chain,
) -> Result<(), PostgresError> {
    // The name consists of lowercase letters, digits and underscores.
    let schema = &options.schema;
    let create = format!("CREATE SCHEMA IF NOT EXISTS \"{schema}\"; {CREATE}");
    transaction.batch_execute(&create).await?;
    let sql = "INSERT INTO state (version, id, commit_base, key_check) VALUES ($1, gen_random_uuid(), 0, $2)";
    let key = chain.key_check().map(|check| check.to_vec());
    transaction.execute(sql, &[&VERSION, &key]).await?;
    Ok(())
}

async fn identity(
    transaction: &Transaction<'_>,
    options: &PostgresOptions,
    chain: &Chain,
) -> Result<DatabaseIdentity, PostgresError> {
    let columns = "SELECT count(*) FROM information_schema.columns WHERE table_schema = $1 AND table_name = 'state' \
        AND column_name IN ('version', 'id', 'commit_base', 'key_check')";
    let found: i64 = (transaction.query_one(columns, &[&options.schema]).await?).try_get(0)?;
    let another_program = || PostgresError::AnotherProgram(options.schema.clone());
    if found != 4 {
        return Err(another_program());
    }
    let sql = "SELECT version, id, commit_base, key_check FROM state";
    let row = transaction.query_opt(sql, &[]).await?;
    let row = row.ok_or_else(another_program)?;
    let version: i32 = row.try_get(0)?;
    if version > VERSION {
        return Err(PostgresError::NewerSchema {
            schema: options.schema.clone(),
            found: version,
            known: VERSION,
        });
    }
    let why = match (row.try_get::<_, Option<&[u8]>>(3)?, chain.key_check()) {
        (Some(_), None) => Some("it was created with a key, and none was given"),
        (None, Some(_)) => Some("it was created without one"),
        (Some(stored), Some(given)) if stored != given => Some("it was created with another one"),
        _ => None,
    };
    if let Some(why) = why {
        return Err(PostgresError::ChainKey(why));
    }
    let id: Uuid = row.try_get(1)?;
    Ok(DatabaseIdentity {
        cursors: Cursors::new(id.into_bytes()),
        commit_base: commit_base(transaction, row.try_get(2)?).await?,
    })
}

/// Returns the number that is added to the IDs of transactions. A database that was restored on another server contains numbers that this server has
/// not reached yet: the base is raised, so that new records follow the old ones in the feed.
async fn commit_base(transaction: &Transaction<'_>, base: i64) -> Result<i64, PostgresError> {
    // The newest record must be read first: it belongs to an older transaction than the second query's.
    let newest = "SELECT coalesce(max(commit_number), 0) FROM records";
    let newest: i64 = transaction.query_one(newest, &[]).await?.try_get(0)?;
    let next = "SELECT pg_snapshot_xmax(pg_current_snapshot())::text::bigint";
    let next: i64 = transaction.query_one(next, &[]).await?.try_get(0)?;
    if newest < base + next {
        return Ok(base);
    }
    let raised = newest + 1 - next;
    transaction
        .execute("UPDATE state SET commit_base = $1", &[&raised])
        .await?;
    Ok(raised)
}
