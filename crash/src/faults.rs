//! Named fault points at which the child stops and waits to be killed.
//!
//! They are in wrappers around the runtime's interfaces (journal, driver, tools), so that no other program contains them.

use std::io::Write;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use async_trait::async_trait;
use windlass_store::JournalError;
use windlass_store::conformance::{JournalCall, JournalHooks, JournalSuccess};

/// Every point, by name.
pub const POINTS: &[&str] = &[
    "journal.before-claim",
    "journal.before-append",
    "journal.after-append",
    "journal.before-fork",
    "journal.after-fork",
    "model.before-answer",
    "model.in-answer",
    "tool.before-effect",
    "tool.after-effect",
    "input.before-acknowledged",
];

/// Printed by the child when it stops at its point.
pub const REACHED: &str = "reached";

struct Armed {
    point: String,
    passes_left: AtomicU64,
}

static ARMED: OnceLock<Armed> = OnceLock::new();

/// Arms one point: the child stops when it passes it for the `nth` time, counted from 1.
pub fn arm(point: &str, nth: u64) {
    let _ = ARMED.set(Armed {
        point: point.to_owned(),
        passes_left: AtomicU64::new(nth.max(1)),
    });
}

/// Passes a point. At the armed point, the child reports it and blocks until it is killed.
pub fn pass(point: &str) {
    let Some(armed) = ARMED.get().filter(|armed| armed.point == point) else {
        return;
    };
    if armed.passes_left.fetch_sub(1, Ordering::SeqCst) == 1 {
        let mut out = std::io::stdout().lock();
        let _ = writeln!(out, "{REACHED} {point}");
        let _ = out.flush();
        drop(out);
        loop {
            std::thread::park();
        }
    }
}

/// Fault points around the calls of a journal.
pub struct JournalPoints;

#[async_trait]
impl JournalHooks for JournalPoints {
    async fn before(&self, call: JournalCall<'_>) -> Result<(), JournalError> {
        match call {
            JournalCall::Claim => pass("journal.before-claim"),
            JournalCall::Append(_) => pass("journal.before-append"),
            JournalCall::Fork => pass("journal.before-fork"),
            JournalCall::Read => {}
        }
        Ok(())
    }

    async fn after(&self, done: JournalSuccess) -> Result<(), JournalError> {
        match done {
            JournalSuccess::Append => pass("journal.after-append"),
            JournalSuccess::Fork => pass("journal.after-fork"),
            JournalSuccess::Read(_) => {}
        }
        Ok(())
    }
}
