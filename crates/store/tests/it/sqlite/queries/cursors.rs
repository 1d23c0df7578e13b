//! Cursors of other databases, and of newer states.

use windlass_store::{CursorError, Queries, QueryError, SqliteStore, ThreadQuery};

use super::super::support::{StoreHome, custom, fill};

async fn filled() -> (StoreHome, SqliteStore, String) {
    let home = StoreHome::new();
    let store = home.open().await;
    for name in ["a", "b"] {
        fill(&store, name, vec![custom("x")]).await;
    }
    let page = store.queries().threads(ThreadQuery::first(1)).await;
    let next = page.unwrap().next.unwrap();
    (home, store, next)
}

async fn ask(store: &SqliteStore, cursor: &str) -> Result<usize, QueryError> {
    let query = ThreadQuery {
        after: Some(cursor.to_owned()),
        ..ThreadQuery::first(9)
    };
    let page = store.queries().threads(query).await?;
    Ok(page.entries.len())
}

#[tokio::test]
async fn cursor_belongs_to_its_database_and_survives_a_restart() {
    let (home, store, cursor) = filled().await;
    let (_other, elsewhere, _) = filled().await;
    let foreign = ask(&elsewhere, &cursor).await.unwrap_err();
    assert_eq!(foreign, CursorError::Foreign(cursor.clone()).into());
    let reader = SqliteStore::open_read_only(home.options()).await.unwrap();
    assert_eq!(ask(&reader, &cursor).await, Ok(1));
    store.close().await;
    let store = home.open().await;
    assert_eq!(ask(&store, &cursor).await, Ok(1));
}

#[tokio::test]
async fn cursor_newer_than_the_database_is_refused() {
    let (home, store, _) = filled().await;
    let older = home.crashed();
    fill(&store, "c", vec![custom("y")]).await;
    let page = store.queries().threads(ThreadQuery::first(1)).await;
    let cursor = page.unwrap().next.unwrap();
    assert_eq!(ask(&store, &cursor).await, Ok(2));
    let put_back = older.open().await;
    let future = ask(&put_back, &cursor).await.unwrap_err();
    assert_eq!(future, CursorError::Future(cursor).into());
}
