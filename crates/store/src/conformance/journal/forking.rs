//! Creation of forks.

use windlass_core::events::{Event, EventContext, EventRequest, SessionForkedData};
use windlass_core::typed_id::{EventId, SessionId, TurnId};

use super::subject::{JournalRef, StreamFixture};
use super::turns::{ended, put, queued, started};
use crate::conformance::check::CheckOutcome;
use crate::journal::{JournalError, StreamKey};

pub(super) fn child() -> StreamKey {
    StreamKey::new("child")
}

pub(super) fn forked(at: u64) -> Event {
    forked_as(SessionId::from_seed(8), at)
}

pub(super) fn forked_as(session_id: SessionId, at: u64) -> Event {
    let data = SessionForkedData {
        parent_session_id: SessionId::from_seed(7),
        parent_sequence: at,
        record: None,
        dropped_turn_id: None,
        depth: None,
    };
    EventRequest::new(session_id, EventContext::default(), data).into_event(EventId::new(), None)
}

pub(super) async fn fork_has_its_parents_records_and_continues_separately(
    store: JournalRef,
) -> CheckOutcome {
    let parent = StreamFixture::new(store.clone(), "parent").await?;
    parent.append(1, 3).await?;
    let head = store.fork(&parent.key, 2, &child(), forked(2)).await?;
    require_eq!(head, 3, "head of the fork");
    let page = store.read(&child(), 0, 10).await?;
    require_eq!(page.head, 3, "head that a reader sees");
    let before = store.read(&parent.key, 0, 2).await?.events;
    for (shared, own) in page.events.iter().zip(&before) {
        require_eq!(
            shared.session_id,
            SessionId::from_seed(8),
            "session ID of a shared record"
        );
        require_eq!(
            (shared.id, shared.sequence, &shared.data),
            (own.id, own.sequence, &own.data),
            "a shared record"
        );
    }
    let last = page.events.last().map(|event| event.event_type.as_str());
    require_eq!(last, Some("session.forked"), "the origin of the fork");

    let own = StreamFixture::new(store.clone(), "child").await?;
    require_eq!(own.claim.head, 3, "head that a writer sees");
    own.append(4, 1).await?;
    parent.append(4, 2).await?;
    require_eq!(own.numbers(0, 10).await?, [1, 2, 3, 4], "the fork");
    require_eq!(parent.numbers(0, 10).await?, [1, 2, 3, 4, 5], "its parent");
    store.remove(&parent.key).await?;
    require_eq!(own.numbers(0, 10).await?.len(), 4, "without its parent");
    Ok(())
}

pub(super) async fn waiting_inputs_are_cancelled_in_the_fork(store: JournalRef) -> CheckOutcome {
    let parent = StreamFixture::new(store.clone(), "parent").await?;
    let (one, two) = (TurnId::new(), TurnId::new());
    put(&parent, 1, started(one)?).await?;
    put(&parent, 2, queued(two)?).await?;
    put(&parent, 3, ended(one)?).await?;
    store.fork(&parent.key, 3, &child(), forked(3)).await?;
    let unfinished = store.open(None, 9).await?;
    require_eq!(unfinished, [parent.key], "streams to resume");
    let page = store.read(&child(), 3, 10).await?;
    let types = page.events.iter().map(|event| event.event_type.as_str());
    require_eq!(
        types.collect::<Vec<_>>(),
        ["session.forked", "turn.cancelled"],
        "the own records of the fork"
    );
    Ok(())
}

pub(super) async fn refused_fork_leaves_nothing(store: JournalRef) -> CheckOutcome {
    let parent = StreamFixture::new(store.clone(), "parent").await?;
    put(&parent, 1, started(TurnId::new())?).await?;
    for at in [1, 2] {
        let refused = store.fork(&parent.key, at, &child(), forked(at)).await;
        require!(
            matches!(refused, Err(JournalError::NotForkable { seq, .. }) if seq == at),
            "forked at {at}: {refused:?}"
        );
        require_eq!(
            store.read(&child(), 0, 10).await?.head,
            0,
            "after a refusal"
        );
    }
    let other = StreamFixture::new(store.clone(), "child").await?;
    other.append(1, 1).await?;
    let refused = store.fork(&parent.key, 0, &child(), forked(0)).await;
    require!(
        matches!(refused, Err(JournalError::NotForkable { .. })),
        "forked over a stream: {refused:?}"
    );
    other.append(2, 1).await?;
    require_eq!(other.numbers(0, 10).await?, [1, 2], "the existing stream");
    Ok(())
}
