//! Followers of the feed miss no record and receive none twice while the writer is killed.

use windlass_crash::feed::{READERS, run};
use windlass_crash::harness::KillPlan;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn feed_readers_get_each_record_once_despite_kills() {
    let plan = KillPlan {
        program: env!("CARGO_BIN_EXE_windlass-crash").into(),
        kills: 20,
        seed: 20_261_117,
    };
    let summary = run(&plan, |_| {}).await;
    let summary = summary.unwrap_or_else(|broken| panic!("{broken}"));
    assert_eq!(summary.kills, 20);
    assert!(summary.records > 0, "nothing was written: {summary:?}");
    assert!(
        summary.restarts > READERS,
        "no reader restarted: {summary:?}"
    );
}
