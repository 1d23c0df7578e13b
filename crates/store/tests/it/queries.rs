//! Conformance of queries in memory.

use std::sync::Arc;

use windlass_store::conformance::{self, QueryStores};
use windlass_store::{MemoryJournal, MemoryQueries, MemoryRunLog};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn memory_conforms() {
    conformance::queries(async || {
        let (journal, runs) = (
            Arc::new(MemoryJournal::new()),
            Arc::new(MemoryRunLog::default()),
        );
        Arc::new(QueryStores {
            queries: Arc::new(MemoryQueries::new(Arc::clone(&journal), Arc::clone(&runs))),
            journal,
            runs,
        })
    })
    .await
    .unwrap();
}
