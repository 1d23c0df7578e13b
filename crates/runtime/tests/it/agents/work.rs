//! The host is notified while an agent works.

use std::sync::Arc;

use async_trait::async_trait;
use tokio::sync::watch;
use windlass_core::backend::BackendSpec;
use windlass_core::error::{AgentLoopError, Result};
use windlass_runtime::{BackendHost, BackendRequest, MemoryJournal};

use super::fake::{AgentScript, Fake};
use super::{life_with, run, submit};
use crate::support::{Gate, Setup, soon};

/// A host that counts the agents at work.
struct Watching {
    at_work: watch::Sender<usize>,
    allows: bool,
}

struct AtWork(watch::Sender<usize>);

impl Drop for AtWork {
    fn drop(&mut self) {
        self.0.send_modify(|count| *count -= 1);
    }
}

#[async_trait]
impl BackendHost for Watching {
    async fn spec(&self, _: BackendRequest) -> Result<BackendSpec> {
        assert_eq!(*self.at_work.borrow(), 1, "it is notified before");
        Ok(BackendSpec::new("test", "/"))
    }

    async fn begin_work(&self, _: &BackendRequest) -> Result<Box<dyn Send + Sync>> {
        if !self.allows {
            return Err(AgentLoopError::config("not now"));
        }
        self.at_work.send_modify(|count| *count += 1);
        Ok(Box::new(AtWork(self.at_work.clone())))
    }
}

fn watching(allows: bool) -> (Arc<Watching>, watch::Receiver<usize>) {
    let (at_work, seen) = watch::channel(0);
    (Arc::new(Watching { at_work, allows }), seen)
}

#[tokio::test]
async fn work_ends_with_the_turn_or_its_cancellation() {
    let gate = Gate::shut();
    let fake = Fake::new([AgentScript::says("a"), AgentScript::default().wait(&gate)]);
    let (host, mut seen) = watching(true);
    let journal = Arc::new(MemoryJournal::new());
    let fixture = life_with(&journal, &fake, Setup::new([]), host).await;
    run(&fixture, "go").await;
    assert_eq!(*seen.borrow(), 0, "the end of the turn comes later");
    let running = submit(&fixture, "more").await;
    gate.reached(1).await;
    assert_eq!(*seen.borrow(), 1);
    soon(fixture.runtime.interrupt(fixture.session, None, None))
        .await
        .unwrap();
    soon(running.wait()).await.unwrap();
    soon(seen.wait_for(|count| *count == 0)).await.unwrap();
}

#[tokio::test]
async fn agent_refused_by_the_host_is_not_started() {
    let fake = Fake::new([AgentScript::says("a")]);
    let (host, _seen) = watching(false);
    let journal = Arc::new(MemoryJournal::new());
    let fixture = life_with(&journal, &fake, Setup::new([]), host).await;
    let ended = run(&fixture, "go").await;
    assert!(!ended.success, "{ended:?}");
    assert!(fake.opened().is_empty());
}
