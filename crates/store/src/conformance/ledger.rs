//! The rules of the spending ledger.

use std::sync::Arc;

use chrono::{DateTime, TimeDelta, Utc};
use windlass_core::budget::{DayLimits, Reserve};
use windlass_core::typed_id::ExecId;

use super::check::{CheckOutcome, ConformanceCheck, Violation};
use crate::journal::{Batch, Claim, Journal, JournalError, StreamKey};
use crate::ledger::{LedgerError, OwnerSpending, Reservation, Settlement, SpendingLedger};

/// The ledger, and the journal whose appends settle.
pub struct LedgerStores {
    /// Stores the streams of the sessions.
    pub journal: Arc<dyn Journal>,
    pub ledger: Arc<dyn SpendingLedger>,
}

type LedgerStoresRef = Arc<LedgerStores>;

/// The rules of every ledger.
pub const LEDGER_CHECKS: &[ConformanceCheck<LedgerStores>] = checks![
    rules::reservation_is_charged_until_settled,
    rules::unknown_amount_is_charged_as_reserved,
    rules::concurrent_reservations_respect_the_limit,
    rules::each_owner_has_its_own_limit,
    rules::refused_append_settles_nothing,
    rules::steps_are_charged_to_the_day_of_their_end,
    rules::spending_outlives_its_stream,
];

fn at(hours: i64) -> DateTime<Utc> {
    DateTime::UNIX_EPOCH + TimeDelta::days(20_000) + TimeDelta::hours(hours)
}

fn usd(micro_usd: u64) -> Reserve {
    Reserve {
        tokens: 0,
        micro_usd,
    }
}

fn limit(micro_usd: u64) -> DayLimits {
    DayLimits {
        micro_usd: Some(micro_usd),
        ..DayLimits::default()
    }
}

fn reservation(exec_id: ExecId, micro_usd: u64) -> Reservation {
    Reservation {
        exec_id,
        owner: None,
        at: at(0),
        amount: usd(micro_usd),
    }
}

fn settlement(exec_id: ExecId, micro_usd: Option<u64>) -> Settlement {
    Settlement {
        exec_id,
        owner: None,
        at: at(0),
        tokens: Some(0),
        micro_usd,
        unreserved: usd(7),
    }
}

async fn settle(
    store: &LedgerStoresRef,
    claim: &Claim,
    settlements: Vec<Settlement>,
) -> Result<(), JournalError> {
    let batch = Batch {
        first_seq: 1,
        settlements,
        ..Batch::default()
    };
    store.journal.append(claim, batch).await
}

async fn claim(store: &LedgerStoresRef) -> Result<Claim, Violation> {
    Ok(store.journal.claim(&StreamKey::new("s")).await?)
}

/// Returns the operator's spent and reserved amounts of a day, in millionths.
async fn spent(store: &LedgerStoresRef, hours: i64) -> Result<(u64, u64), Violation> {
    let spending = store.ledger.spending(at(hours).date_naive()).await?;
    let own = spending.iter().find(|it| it.owner.is_none());
    Ok(own.map_or((0, 0), |it| (it.settled.micro_usd, it.reserved.micro_usd)))
}

mod rules {
    use super::*;

    pub(super) async fn reservation_is_charged_until_settled(
        store: LedgerStoresRef,
    ) -> CheckOutcome {
        let (ledger, limits, claim) = (&store.ledger, limit(100), claim(&store).await?);
        let (one, two) = (ExecId::new(), ExecId::new());
        ledger.reserve(reservation(one, 60), &limits).await?;
        require_eq!(spent(&store, 0).await?, (0, 60), "reserved");
        let second = reservation(two, 60);
        let asked = ledger.refusal(&second, &limits).await?;
        let refused = ledger.reserve(second.clone(), &limits).await;
        require_eq!(
            refused,
            asked.map_or(Ok(()), |it| Err(LedgerError::Refused(it))),
            "both say"
        );
        let renews_at = asked.map(|refusal| (refusal.name, refusal.renews_at));
        require_eq!(renews_at, Some(("day_usd", at(24))), "until when");
        settle(&store, &claim, vec![settlement(one, Some(40))]).await?;
        require_eq!(spent(&store, 0).await?, (40, 0), "settled");
        ledger.reserve(second, &limits).await?;
        settle(&store, &claim, vec![settlement(two, Some(0))]).await?;
        require_eq!(spent(&store, 0).await?, (40, 0), "one that used nothing");
        Ok(())
    }

    pub(super) async fn unknown_amount_is_charged_as_reserved(
        store: LedgerStoresRef,
    ) -> CheckOutcome {
        let claim = claim(&store).await?;
        let (held, free) = (ExecId::new(), ExecId::new());
        let limits = limit(100);
        store.ledger.reserve(reservation(held, 30), &limits).await?;
        let both = [held, free].map(|exec_id| settlement(exec_id, None));
        settle(&store, &claim, both.into()).await?;
        require_eq!(spent(&store, 0).await?, (37, 0), "30 reserved, 7 not");
        Ok(())
    }

    pub(super) async fn concurrent_reservations_respect_the_limit(
        store: LedgerStoresRef,
    ) -> CheckOutcome {
        let tasks: Vec<_> = (0..20)
            .map(|_| {
                let ledger = Arc::clone(&store.ledger);
                let next = reservation(ExecId::new(), 30);
                tokio::spawn(async move { ledger.reserve(next, &limit(100)).await.is_ok() })
            })
            .collect();
        let mut reserved = 0;
        for task in tasks {
            let is_reserved = task.await.map_err(|error| Violation(error.to_string()))?;
            reserved += u64::from(is_reserved);
        }
        require_eq!(reserved, 3, "of 20");
        require_eq!(spent(&store, 0).await?, (0, 90), "reserved");
        Ok(())
    }

    pub(super) async fn each_owner_has_its_own_limit(store: LedgerStoresRef) -> CheckOutcome {
        let limits = DayLimits {
            owner_micro_usd: Some(50),
            ..limit(1_000)
        };
        let of = |owner: &str| Reservation {
            owner: Some(owner.to_owned()),
            ..reservation(ExecId::new(), 40)
        };
        let ledger = &store.ledger;
        ledger.reserve(of("a"), &limits).await?;
        ledger.reserve(of("b"), &limits).await?;
        let refused = ledger.refusal(&of("a"), &limits).await?;
        require_eq!(refused.map(|it| it.name), Some("token_day_usd"), "a again");
        ledger
            .reserve(reservation(ExecId::new(), 100), &limits)
            .await?;
        let spending = ledger.spending(at(0).date_naive()).await?;
        let expected = [(None, 100), (Some("a"), 40), (Some("b"), 40)];
        let expected = expected.map(|(owner, reserved)| OwnerSpending {
            owner: owner.map(str::to_owned),
            settled: usd(0),
            reserved: usd(reserved),
        });
        require_eq!(spending, expected, "by owner");
        Ok(())
    }

    pub(super) async fn refused_append_settles_nothing(store: LedgerStoresRef) -> CheckOutcome {
        let (old, exec_id) = (claim(&store).await?, ExecId::new());
        claim(&store).await?;
        let limits = limit(100);
        store
            .ledger
            .reserve(reservation(exec_id, 30), &limits)
            .await?;
        let fenced = settle(&store, &old, vec![settlement(exec_id, Some(90))]).await;
        require!(fenced.is_err(), "a stale writer has settled");
        require_eq!(spent(&store, 0).await?, (0, 30), "as before");
        Ok(())
    }

    pub(super) async fn steps_are_charged_to_the_day_of_their_end(
        store: LedgerStoresRef,
    ) -> CheckOutcome {
        let (ledger, limits, claim) = (&store.ledger, limit(100), claim(&store).await?);
        let (late, lost) = (ExecId::new(), ExecId::new());
        ledger.reserve(reservation(late, 50), &limits).await?;
        ledger.reserve(reservation(lost, 50), &limits).await?;
        let tomorrow = Reservation {
            at: at(25),
            ..reservation(ExecId::new(), 50)
        };
        ledger.reserve(tomorrow, &limits).await?;
        let ended = Settlement {
            at: at(26),
            ..settlement(late, Some(20))
        };
        settle(&store, &claim, vec![ended]).await?;
        require_eq!(spent(&store, 0).await?, (0, 50), "the first day");
        require_eq!(spent(&store, 25).await?, (20, 50), "the next day");
        // Its reservation is forgotten, and stays charged.
        let after = Reservation {
            at: at(72),
            ..reservation(ExecId::new(), 10)
        };
        ledger.reserve(after, &limits).await?;
        require_eq!(
            spent(&store, 0).await?,
            (50, 0),
            "of a call that never ended"
        );
        Ok(())
    }

    pub(super) async fn spending_outlives_its_stream(store: LedgerStoresRef) -> CheckOutcome {
        let claim = claim(&store).await?;
        settle(&store, &claim, vec![settlement(ExecId::new(), Some(40))]).await?;
        store.journal.remove(&StreamKey::new("s")).await?;
        require_eq!(spent(&store, 0).await?, (40, 0), "after the removal");
        Ok(())
    }
}
