//! Doorbells.

use super::subject::{Store, Subject};
use crate::conformance::check::{Outcome, Violation};
use crate::journal::StreamKey;

pub(super) async fn a_doorbell_shows_the_newest_record(store: Store) -> Outcome {
    let stream = Subject::new(store, "s").await?;
    stream.append(1, 2).await?;
    let mut bell = stream.store.watch(&stream.key).await?;
    require_eq!(*bell.borrow_and_update(), 2, "the doorbell at first");
    stream.append(3, 1).await?;
    bell.changed().await.map_err(closed)?;
    require_eq!(*bell.borrow_and_update(), 3, "the doorbell after an append");
    let late = stream.store.watch(&stream.key).await?;
    require_eq!(*late.borrow(), 3, "a second doorbell");
    require!(
        !bell.has_changed().map_err(closed)?,
        "a watcher rang the bell"
    );
    // A refused append rings for nobody.
    require!(
        stream.append(3, 1).await.is_err(),
        "a number was used twice"
    );
    require!(
        !bell.has_changed().map_err(closed)?,
        "a refused append rang"
    );
    Ok(())
}

pub(super) async fn a_doorbell_hangs_before_the_stream_is_there(store: Store) -> Outcome {
    let mut bell = store.watch(&StreamKey::new("s")).await?;
    require_eq!(*bell.borrow_and_update(), 0, "the doorbell of no stream");
    let stream = Subject::new(store, "s").await?;
    stream.append(1, 2).await?;
    bell.changed().await.map_err(closed)?;
    require_eq!(*bell.borrow_and_update(), 2, "the doorbell after an append");
    Ok(())
}

pub(super) async fn a_doorbell_ends_with_its_stream(store: Store) -> Outcome {
    let stream = Subject::new(store, "s").await?;
    stream.append(1, 1).await?;
    let mut bell = stream.store.watch(&stream.key).await?;
    bell.borrow_and_update();
    stream.store.remove(&stream.key).await?;
    require!(
        bell.changed().await.is_err(),
        "the doorbell of a removed stream"
    );
    Ok(())
}

fn closed(_: tokio::sync::watch::error::RecvError) -> Violation {
    Violation("the doorbell of a stream that is there ended".to_owned())
}
