//! Opening: what is refused, and that nothing is changed then.

use windlass_store::{Journal, JournalError};
use windlass_store_postgres::{ChainKey, PostgresError, PostgresOptions, PostgresStore};

use super::server::shared;
use super::support::{batch, client, key, options};

async fn refused(options: PostgresOptions) -> PostgresError {
    match PostgresStore::open(options).await {
        Ok(_) => panic!("the store was opened"),
        Err(error) => error,
    }
}

#[tokio::test]
async fn invalid_options_are_refused_without_a_connection() {
    for url in [
        "",
        "mysql://localhost/x",
        "postgres://localhost:99999/x",
        "postgres://u:secret@h/%zz?x=y",
    ] {
        let error = refused(PostgresOptions::new(url)).await;
        assert!(matches!(error, PostgresError::Url(_)), "{url}: {error:?}");
        assert!(!error.to_string().contains("secret"), "{error}");
    }
    for url in [
        "postgres://u@localhost/x?sslmode=require",
        "postgres://u@localhost/x?sslmode=prefer",
        "postgres://u@db.example/x",
        "postgres://u@localhost,192.0.2.1/x",
        "postgres:///x?host=localhost&hostaddr=192.0.2.1",
    ] {
        let error = refused(PostgresOptions::new(url)).await;
        assert!(matches!(error, PostgresError::Tls(_)), "{url}: {error:?}");
    }
    let long = "x".repeat(41);
    for name in ["", "a b", "A", "a\"; DROP", &long] {
        let options = PostgresOptions::new("postgres://localhost/x");
        let error = refused(options.with_schema(name.to_owned())).await;
        assert!(
            matches!(error, PostgresError::SchemaName(_)),
            "{name}: {error:?}"
        );
    }
    let options = PostgresOptions::new("postgres://u:secret@localhost/x");
    assert!(!format!("{options:?}").contains("secret"));
}

#[tokio::test]
async fn missing_server_and_database_are_named() {
    let none = PostgresOptions::new("postgres:///x?host=/nonexistent&user=u");
    assert!(matches!(refused(none).await, PostgresError::Unreachable(_)));
    let Some(server) = shared("missing_server_and_database_are_named") else {
        return;
    };
    let url = server.url().replace("/postgres?", "/missing?");
    let error = refused(PostgresOptions::new(url)).await;
    assert!(
        error.to_string().contains("\"missing\" does not exist"),
        "{error}"
    );
}

#[tokio::test]
async fn database_of_another_program_or_version_is_unchanged() {
    let Some(server) = shared("database_of_another_program_or_version_is_unchanged") else {
        return;
    };
    let other = options(server);
    let tables = client(&other).await;
    let schema = &other.schema;
    let create =
        format!("CREATE SCHEMA {schema}; CREATE TABLE {schema}.state (version int, name text)");
    tables.batch_execute(&create).await.unwrap();
    let error = refused(other.clone()).await;
    assert_eq!(error, PostgresError::AnotherProgram(schema.clone()));
    let count = "SELECT count(*) FROM pg_tables WHERE schemaname = current_schema()";
    let count: i64 = tables.query_one(count, &[]).await.unwrap().get(0);
    assert_eq!(count, 1);

    let newer = options(server);
    PostgresStore::open(newer.clone()).await.unwrap().close();
    let tables = client(&newer).await;
    tables
        .batch_execute("UPDATE state SET version = 2")
        .await
        .unwrap();
    let expected = PostgresError::NewerSchema {
        schema: newer.schema.clone(),
        found: 2,
        known: 1,
    };
    assert_eq!(refused(newer).await, expected);
}

#[tokio::test]
async fn database_is_bound_to_its_chain_key() {
    let Some(server) = shared("database_is_bound_to_its_chain_key") else {
        return;
    };
    let (keyed, plain) = (options(server), options(server));
    let with =
        |options: &PostgresOptions, byte| options.clone().with_chain_key(ChainKey::new([byte; 32]));
    PostgresStore::open(with(&keyed, 1)).await.unwrap().close();
    PostgresStore::open(plain.clone()).await.unwrap().close();
    for options in [keyed.clone(), with(&keyed, 2), with(&plain, 1)] {
        assert!(matches!(refused(options).await, PostgresError::ChainKey(_)));
    }
    PostgresStore::open(with(&keyed, 1)).await.unwrap();
}

#[tokio::test]
async fn server_that_can_lose_commits_is_refused() {
    let Some(server) = shared("server_that_can_lose_commits_is_refused") else {
        return;
    };
    let mut options = options(server);
    options
        .url
        .push_str("&options=-c%20synchronous_commit%3Doff");
    let error = refused(options).await;
    assert_eq!(error, PostgresError::NotDurable("synchronous_commit"));
}

#[tokio::test]
async fn stores_that_open_at_the_same_time_share_the_schema() {
    let Some(server) = shared("stores_that_open_at_the_same_time_share_the_schema") else {
        return;
    };
    let options = options(server);
    let open = || PostgresStore::open(options.clone());
    let (one, two, three) = tokio::join!(open(), open(), open());
    let (one, two, _) = (one.unwrap(), two.unwrap(), three.unwrap());
    let claim = one.journal().claim(&key("s")).await.unwrap();
    one.journal()
        .append(&claim, batch(1, &["a"]))
        .await
        .unwrap();
    assert_eq!(two.journal().read(&key("s"), 0, 9).await.unwrap().head, 1);
    one.close();
    let closed = one.journal().append(&claim, batch(2, &["b"])).await;
    let why = PostgresError::Closed.to_string();
    assert_eq!(closed, Err(JournalError::Unavailable(why)));
}
