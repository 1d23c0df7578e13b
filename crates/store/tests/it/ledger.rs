//! The spending ledger in memory: the suite.

use std::sync::Arc;

use windlass_store::MemoryJournal;
use windlass_store::conformance::{self, LedgerStores};

#[tokio::test]
async fn memory_conforms() {
    conformance::ledger(async || {
        let journal = Arc::new(MemoryJournal::new());
        Arc::new(LedgerStores {
            ledger: journal.ledger(),
            journal,
        })
    })
    .await
    .unwrap();
}
