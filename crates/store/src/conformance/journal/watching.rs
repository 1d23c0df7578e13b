//! Watching streams for new records.

use super::subject::{JournalRef, StreamFixture};
use crate::conformance::check::{CheckOutcome, Violation};
use crate::journal::StreamKey;

pub(super) async fn watch_shows_the_newest_record(store: JournalRef) -> CheckOutcome {
    let stream = StreamFixture::new(store, "s").await?;
    stream.append(1, 2).await?;
    let mut watch = stream.store.watch(&stream.key).await?;
    require_eq!(*watch.borrow_and_update(), 2, "the watch at first");
    stream.append(3, 1).await?;
    watch.changed().await.map_err(closed)?;
    require_eq!(*watch.borrow_and_update(), 3, "the watch after an append");
    let late = stream.store.watch(&stream.key).await?;
    require_eq!(*late.borrow(), 3, "a second watch");
    require!(
        !watch.has_changed().map_err(closed)?,
        "a new watcher caused a notification"
    );
    // A refused append notifies no watcher.
    require!(
        stream.append(3, 1).await.is_err(),
        "a number was used twice"
    );
    require!(
        !watch.has_changed().map_err(closed)?,
        "a refused append caused a notification"
    );
    Ok(())
}

pub(super) async fn watch_works_before_the_stream_exists(store: JournalRef) -> CheckOutcome {
    let mut watch = store.watch(&StreamKey::new("s")).await?;
    require_eq!(*watch.borrow_and_update(), 0, "the watch of no stream");
    let stream = StreamFixture::new(store, "s").await?;
    stream.append(1, 2).await?;
    watch.changed().await.map_err(closed)?;
    require_eq!(*watch.borrow_and_update(), 2, "the watch after an append");
    Ok(())
}

pub(super) async fn watch_ends_with_its_stream(store: JournalRef) -> CheckOutcome {
    let stream = StreamFixture::new(store, "s").await?;
    stream.append(1, 1).await?;
    let mut watch = stream.store.watch(&stream.key).await?;
    watch.borrow_and_update();
    stream.store.remove(&stream.key).await?;
    require!(
        watch.changed().await.is_err(),
        "the watch of a removed stream"
    );
    Ok(())
}

fn closed(_: tokio::sync::watch::error::RecvError) -> Violation {
    Violation("the watch of an existing stream ended".to_owned())
}
