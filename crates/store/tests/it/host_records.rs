//! Conformance of host records in memory.

use std::sync::Arc;

use windlass_store::MemoryJournal;
use windlass_store::conformance::{self, Hosted};

#[tokio::test]
async fn memory_keeps_the_rules() {
    conformance::host_records(async || {
        let journal = Arc::new(MemoryJournal::new());
        Arc::new(Hosted {
            records: journal.host_records(),
            journal,
        })
    })
    .await
    .unwrap();
}
