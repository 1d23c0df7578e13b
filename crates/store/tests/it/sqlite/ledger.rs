//! The spending ledger: the suite, and restarts.

use std::sync::{Arc, Mutex};

use chrono::Utc;
use windlass_core::budget::{DayLimits, Reserve};
use windlass_core::typed_id::ExecId;
use windlass_store::conformance::{self, LedgerStores};
use windlass_store::{Reservation, SpendingLedger};

use super::support::StoreHome;

#[tokio::test]
async fn sqlite_conforms() {
    let homes = Mutex::new(Vec::new());
    conformance::ledger(async || {
        let home = StoreHome::new();
        let store = home.open().await;
        homes.lock().unwrap().push(home);
        Arc::new(LedgerStores {
            ledger: Arc::new(store.ledger()),
            journal: Arc::new(store.journal()),
        })
    })
    .await
    .unwrap();
}

#[tokio::test]
async fn reservation_survives_a_restart() {
    let home = StoreHome::new();
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
