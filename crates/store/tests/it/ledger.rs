//! The spending ledger in memory: the suite.

use std::sync::Arc;

use windlass_store::MemoryJournal;
use windlass_store::conformance::{self, Settled};

#[tokio::test]
async fn memory_keeps_the_rules() {
    conformance::ledger(async || {
        let journal = Arc::new(MemoryJournal::new());
        Arc::new(Settled {
            ledger: journal.ledger(),
            journal,
        })
    })
    .await
    .unwrap();
}
