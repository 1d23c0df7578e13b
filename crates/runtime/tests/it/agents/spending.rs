//! The daily cost of an agent's runs.

use std::sync::Arc;

use windlass_core::backend::{BackendEvent, BackendSpec, BackendUsage};
use windlass_core::budget::{DayLimits, Reserve};
use windlass_core::error::AgentLoopError;
use windlass_core::typed_id::SessionId;
use windlass_runtime::{
    BackendRequest, Clock, DailyLimit, MemoryJournal, RuntimeBackends, SpendingLedger,
};

use super::fake::{AgentScript, Fake, FakeBackend};
use super::{run, submit, to_agent};
use crate::support::{Fixture, Gate, Setup, soon};

/// A process with this daily token limit, which reserves 10 for a run.
async fn limited(journal: &Arc<MemoryJournal>, fake: &Arc<Fake>, tokens: u64) -> Fixture {
    let limits = DayLimits {
        tokens: Some(tokens),
        ..DayLimits::default()
    };
    let limit = DailyLimit::new(limits, journal.ledger());
    let mut setup = Setup::new([])
        .backends(RuntimeBackends::on_memory(journal).with_daily_limit(limit))
        .session(|session| session.session_id(SessionId::from_seed(7)));
    setup.settings.reserve = Reserve {
        tokens: 10,
        micro_usd: 0,
    };
    let (model, clock) = (setup.model.clone(), setup.clock.clone());
    let host = |_: BackendRequest| Ok(BackendSpec::new("test", "/"));
    let builder = setup
        .builder()
        .backend(Arc::new(FakeBackend(Arc::clone(fake))), Arc::new(host));
    Fixture {
        session: SessionId::from_seed(7),
        runtime: builder.build().await.unwrap(),
        model,
        clock,
    }
}

/// Returns the tokens that are settled and reserved today.
async fn spent(journal: &MemoryJournal, fixture: &Fixture) -> (u64, u64) {
    let today = fixture.clock.now().date_naive();
    let spending = journal.ledger().spending(today).await.unwrap();
    spending.iter().fold((0, 0), |(settled, reserved), owner| {
        (
            settled + owner.settled.tokens,
            reserved + owner.reserved.tokens,
        )
    })
}

#[tokio::test]
async fn run_reserves_before_it_starts_and_is_always_charged() {
    for (reported, charged) in [(Some(4), 4), (None, 10)] {
        let (gate, journal) = (Gate::shut(), Arc::new(MemoryJournal::new()));
        let mut first = AgentScript::says("half");
        if let Some(output_tokens) = reported {
            first = first.tell(BackendEvent::Usage(BackendUsage {
                output_tokens,
                ..BackendUsage::default()
            }));
        }
        let fake = Fake::new([first.call("a").wait(&gate)]);
        let fixture = limited(&journal, &fake, 15).await;
        let handle = submit(&fixture, "go").await;
        gate.reached(1).await;
        super::recorded(&fixture, "tool.started").await;
        assert_eq!(spent(&journal, &fixture).await, (0, 10));
        fixture.runtime.cancel_turn(fixture.session).await.unwrap();
        soon(handle.wait()).await.unwrap();
        assert_eq!(spent(&journal, &fixture).await, (charged, 0));
    }
}

#[tokio::test]
async fn exhausted_daily_budget_refuses_the_next_run() {
    let journal = Arc::new(MemoryJournal::new());
    let fake = Fake::new((0..5).map(|_| AgentScript::says("done")));
    let fixture = limited(&journal, &fake, 15).await;
    // Each run uses 3.
    for used in [3, 6] {
        assert!(run(&fixture, "go").await.success);
        assert_eq!(spent(&journal, &fixture).await, (used, 0));
    }
    let refused = fixture.runtime.submit(fixture.session, to_agent("go"));
    let refused = soon(refused).await.err();
    assert!(
        matches!(&refused, Some(AgentLoopError::BudgetExceeded(_))),
        "{refused:?}"
    );
    assert_eq!(fake.prompts().len(), 2);
}
