//! Followers of the feed miss no record and receive none twice while the writer is killed.

use windlass_crash::feed::{READERS, run};
use windlass_crash::harness::Plan;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn readers_of_the_feed_get_each_record_once_while_the_writer_is_killed() {
    let plan = Plan {
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
        "nobody began again: {summary:?}"
    );
}
