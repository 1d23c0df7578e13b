//! The spending ledger: the suite, and restarts.

use std::sync::{Arc, Mutex};

use chrono::Utc;
use windlass_core::budget::{DayLimits, Reserve};
use windlass_core::typed_id::ExecId;
use windlass_store::conformance::{self, Settled};
use windlass_store::{Reservation, SpendingLedger};

use super::support::Home;

#[tokio::test]
async fn sqlite_keeps_the_rules() {
    let homes = Mutex::new(Vec::new());
    conformance::ledger(async || {
        let home = Home::new();
        let store = home.open().await;
        homes.lock().unwrap().push(home);
        Arc::new(Settled {
            ledger: Arc::new(store.ledger()),
            journal: Arc::new(store.journal()),
        })
    })
    .await
    .unwrap();
}

#[tokio::test]
async fn a_reservation_of_a_process_that_is_gone_stays_charged() {
    let home = Home::new();
    let store = home.open().await;
    let now = Utc::now();
    let reservation = Reservation {
        exec_id: ExecId::new(),
        owner: None,
        at: now,
        amount: Reserve {
            tokens: 3,
            micro_usd: 5,
        },
    };
    let limits = DayLimits::default();
    let amount = reservation.amount;
    store.ledger().reserve(reservation, &limits).await.unwrap();
    store.close().await;
    let store = home.open().await;
    let spending = store.ledger().spending(now.date_naive()).await.unwrap();
    assert_eq!((spending.len(), spending[0].reserved), (1, amount));
}
