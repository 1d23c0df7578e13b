//! Conformance of host records in memory.

use std::sync::Arc;

use windlass_store::MemoryJournal;
use windlass_store::conformance::{self, HostRecordStores};

#[tokio::test]
async fn memory_conforms() {
    conformance::host_records(async || {
        let journal = Arc::new(MemoryJournal::new());
        Arc::new(HostRecordStores {
            records: journal.host_records(),
            journal,
        })
    })
    .await
    .unwrap();
}
