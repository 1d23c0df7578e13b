//! Many starts and stops leak nothing.

use crate::support::{BOTH, StubFixture, prompt};

fn descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").unwrap().count()
}

fn threads() -> usize {
    std::fs::read_dir("/proc/self/task").unwrap().count()
}

/// Other tests run concurrently, so it looks for growth that they cannot cause.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn repeated_starts_leak_no_descriptor_or_thread() {
    let (descriptors_before, threads_before) = (descriptors(), threads());
    const STARTS: usize = 250;
    for protocol in BOTH {
        let fixture = StubFixture::new(protocol);
        for round in 0..STARTS {
            let session = fixture.open("").await;
            if round % 2 == 0 {
                let (outcome, _) = prompt(session.as_ref(), "say hi").await;
                assert!(outcome.result.is_ok(), "{protocol:?} {outcome:?}");
            }
            assert!(session.close().await.is_whole);
        }
    }
    assert!(
        descriptors() < descriptors_before + STARTS,
        "{} descriptors",
        descriptors()
    );
    assert!(threads() < threads_before + STARTS, "{} threads", threads());
}
