//! Records that streams share, and their retention.

use windlass_core::typed_id::{SessionId, TurnId};

use super::forking::{child, forked, forked_as};
use super::gaps::gaps;
use super::subject::{JournalRef, StreamFixture};
use super::turns::{put, started};
use crate::conformance::check::{CheckOutcome, Violation};
use crate::journal::{JournalError, StreamKey, all_events};

/// The session IDs and texts of the records that a stream shows.
async fn shown(store: &JournalRef, stream: &StreamKey) -> Result<Vec<(u128, String)>, Violation> {
    let gone = gaps(store.as_ref(), stream).await?;
    require!(gone.is_empty(), "{stream} has gaps: {gone:?}");
    let page = store.read(stream, 0, usize::MAX).await?;
    let events = page.events.iter();
    Ok(events
        .map(|event| (event.session_id.uuid().as_u128(), event.id.to_string()))
        .collect())
}

/// The expected records of a fork: those of its parent under its own session ID.
fn expected_prefix(parent: &[(u128, String)], count: usize, session: u128) -> Vec<(u128, String)> {
    let shared = parent.iter().take(count);
    shared.map(|(_, id)| (session, id.clone())).collect()
}

pub(super) async fn fork_can_be_forked_at_any_record(store: JournalRef) -> CheckOutcome {
    let parent = StreamFixture::new(store.clone(), "parent").await?;
    parent.append(1, 4).await?;
    store.fork(&parent.key, 3, &child(), forked(3)).await?;
    let first = StreamFixture::new(store.clone(), "child").await?;
    first.append(5, 2).await?;
    let root = shown(&store, &parent.key).await?;
    let trunk = shown(&store, &first.key).await?;
    require_eq!(trunk[..3], expected_prefix(&root, 3, 8), "the fork");
    // After its own records, at its first one, at the last shared one, and before that.
    for (at, session) in [(6, 11), (4, 12), (3, 13), (1, 14)] {
        let key = StreamKey::new(format!("fork at {at}"));
        let session_id = SessionId::from_seed(session);
        let forked = forked_as(session_id, at);
        let head = store.fork(&first.key, at, &key, forked).await?;
        require_eq!(head, at + 1, "head of a fork at {at}");
        let count = usize::try_from(at).unwrap_or(0);
        let branch = shown(&store, &key).await?;
        require_eq!(
            branch[..count],
            expected_prefix(&trunk, count, session),
            "fork at {at}"
        );
        let own = StreamFixture {
            store: store.clone(),
            claim: store.claim(&key).await?,
            key,
        };
        require_eq!(own.claim.head, at + 1, "head for a writer at {at}");
        own.append(at + 2, 1).await?;
        let numbers: Vec<u64> = (1..=at + 2).collect();
        require_eq!(own.numbers(0, 99).await?, numbers, "fork at {at} continues");
    }
    require_eq!(shown(&store, &parent.key).await?, root, "the parent");
    require_eq!(shown(&store, &first.key).await?, trunk, "the first fork");
    Ok(())
}

pub(super) async fn removed_parent_remains_only_in_its_forks(store: JournalRef) -> CheckOutcome {
    let parent = StreamFixture::new(store.clone(), "parent").await?;
    let turn = TurnId::new();
    parent.append(1, 3).await?;
    put(&parent, 4, started(turn)?).await?;
    store.fork(&parent.key, 2, &child(), forked(2)).await?;
    let before = shown(&store, &child()).await?;
    require!(store.remove(&parent.key).await?, "the parent was not there");
    require!(!store.remove(&parent.key).await?, "it was removed twice");
    require_eq!(store.read(&parent.key, 0, 9).await?.head, 0, "its head");
    let unfinished = store.open(None, 9).await?;
    require!(
        unfinished.is_empty(),
        "it is listed as open: {unfinished:?}"
    );
    let refused = parent.append(5, 1).await;
    require!(
        matches!(refused, Err(JournalError::Removed(_))),
        "its writer can still append: {refused:?}"
    );
    let refused = store
        .fork(&parent.key, 2, &StreamKey::new("late"), forked(2))
        .await;
    require!(
        matches!(refused, Err(JournalError::NotForkable { .. })),
        "it is forked: {refused:?}"
    );
    require_eq!(shown(&store, &child()).await?, before, "its fork");

    let again = StreamFixture::new(store.clone(), "parent").await?;
    require_eq!(again.claim.head, 0, "head of another one by its name");
    again.append(1, 1).await?;
    require_eq!(again.numbers(0, 9).await?, [1], "another one by its name");
    require_eq!(
        shown(&store, &child()).await?,
        before,
        "the fork after that"
    );
    store
        .fork(&child(), 2, &StreamKey::new("late"), forked(2))
        .await?;
    require_eq!(
        shown(&store, &StreamKey::new("late")).await?[..2],
        before[..2],
        "a fork of records that only forks have"
    );
    Ok(())
}

pub(super) async fn shared_records_are_removed_with_the_last_fork(
    store: JournalRef,
) -> CheckOutcome {
    let parent = StreamFixture::new(store.clone(), "parent").await?;
    parent.append(1, 3).await?;
    let (second, third) = (StreamKey::new("second"), StreamKey::new("third"));
    store.fork(&parent.key, 3, &child(), forked(3)).await?;
    store.fork(&child(), 4, &second, forked(4)).await?;
    store.fork(&parent.key, 1, &third, forked(1)).await?;
    let before = shown(&store, &second).await?;
    store.remove(&child()).await?;
    store.remove(&parent.key).await?;
    require_eq!(shown(&store, &second).await?, before, "fork of a fork");
    store.remove(&second).await?;
    require_eq!(shown(&store, &third).await?.len(), 2, "the last fork");
    require_eq!(all_events(&*store).await?.len(), 1, "the remaining records");
    store.remove(&third).await?;
    require!(all_events(&*store).await?.is_empty(), "records remain");
    for name in ["parent", "child", "second", "third"] {
        let again = StreamFixture::new(store.clone(), name).await?;
        require_eq!(again.claim.head, 0, "head of {name} when it begins again");
    }
    Ok(())
}
