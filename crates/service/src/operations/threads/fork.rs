//! Forks: new threads that start with the history of another one, complete or up to a turn.
//!
//! The journal shares the records, so the cost of a fork does not depend on the length of the thread. Shared records are not events of the fork; its
//! detail shows them under IDs of the fork.

use windlass_core::error::AgentLoopError;
use windlass_core::typed_id::TurnId;
use windlass_protocol::{ForkThread, Mode, Thread};
use windlass_runtime::{ForkAt, ForkOptions};
use windlass_store::queries::TurnRow;

use crate::operations::prelude::*;
use crate::operations::threads::thread_record::{inherited_record, stored_mode};
use crate::threads::FoundThread;

/// The end of the shared history, and the fork's own settings.
pub(crate) struct ForkPoint {
    at: ForkAt,
    /// The ID of the first turn that is not shared, as the parent shows it.
    dropped: Option<TurnId>,
    depth: Option<u32>,
    model: Option<String>,
    mode: Option<Mode>,
}

impl ForkPoint {
    fn at(at: ForkAt) -> Self {
        Self {
            at,
            dropped: None,
            depth: None,
            model: None,
            mode: None,
        }
    }

    /// Cuts before a turn that was found by its depth.
    pub(crate) fn before(found: &FoundThread, turn: &TurnRow, depth: u32) -> Self {
        Self {
            dropped: Some(found.visible_turn_id(turn)),
            depth: Some(depth),
            ..Self::at(ForkAt::Before(turn.view.id))
        }
    }
}

/// Creates a thread that starts with the history of another one.
impl Handle<op::ForkThread> for Service {
    async fn handle(&self, ctx: &RequestContext, call: Call<op::ForkThread>) -> Result<Thread> {
        let parent = self.find(&call.path.id).await?;
        self.fork_thread(ctx, &parent, call.request, None).await
    }
}

impl Service {
    /// Creates a fork, optionally with another mode.
    pub(crate) async fn fork_thread(
        &self,
        ctx: &RequestContext,
        parent: &FoundThread,
        request: ForkThread,
        mode: Option<Mode>,
    ) -> Result<Thread> {
        if let Some(existing) = self.already_created(ctx).await? {
            return Ok(existing.thread);
        }
        let (backend, model) = (&parent.thread.backend, request.model.as_deref());
        let model = model.map(|_| self.resolve_model(backend.as_deref(), model));
        let at = match &request.turn_id {
            Some(name) => ForkAt::Turn(self.find_turn(parent, name).await?.view.id),
            None => ForkAt::Latest,
        };
        let cut = ForkPoint {
            model: model.transpose()?,
            mode,
            ..ForkPoint::at(at)
        };
        self.reserve_thread(ctx.caller.agent()).await?;
        Ok(self.create_fork(ctx, parent, cut).await?.thread)
    }

    /// Finds the first turn to drop: the one of an earlier attempt, or the one at a depth.
    pub(crate) async fn turn_to_drop(
        &self,
        found: &FoundThread,
        depth: u32,
        existing: Option<&FoundThread>,
    ) -> Result<TurnRow> {
        if let Some(dropped) = existing.and_then(|fork| fork.row.origin?.dropped) {
            return self.find_turn(found, &dropped.to_string()).await;
        }
        let mut user_turns: u32 = 0;
        let is_at_depth = |turn: &TurnRow| {
            // A compaction turn answers no prompt, so it is not counted.
            let is_user_turn = turn.view.outline.compaction.is_none();
            let is_at_depth = is_user_turn && user_turns == depth;
            user_turns += u32::from(is_user_turn);
            is_at_depth
        };
        if let Some(turn) = self.newest_turn_where(found, is_at_depth).await? {
            return Ok(turn);
        }
        let mut text =
            format!("fork_at_user_message: depth {depth} exceeds {user_turns} user turn(s)");
        if self.has_pruned_turns(found).await? {
            text.push_str(", because retention removed the records of earlier turns");
        }
        Err(ApiError::new(ErrorCode::DepthOutOfRange, text))
    }

    /// Creates a fork; the caller has checked the limits. It takes one commit of the journal and one of the session's record.
    pub(crate) async fn create_fork(
        &self,
        ctx: &RequestContext,
        parent: &FoundThread,
        cut: ForkPoint,
    ) -> Result<FoundThread> {
        let id = self.new_thread_id(ctx);
        // It has no parent: no turn waits for the fork of a child thread.
        let mut record = inherited_record(parent.record.clone());
        if let Some(mode) = cut.mode {
            record.policy.mode = stored_mode(mode);
        }
        if let Some(model) = cut.model {
            self.effective().models.set(&mut record.policy, model);
        }
        let mut options = ForkOptions::new().id(id).record(record);
        if let Some(depth) = cut.depth {
            options = options.depth(depth);
        }
        if let Some(dropped) = cut.dropped {
            options = options.dropped_turn(dropped);
        }
        let forked = self
            .runtime
            .fork_session(parent.id, cut.at, options.clone());
        match forked.await {
            // An open turn belongs only to the parent.
            Err(AgentLoopError::TurnBusy { turn_id, .. }) if cut.at == ForkAt::Latest => {
                let (at, options) = (ForkAt::Before(turn_id), options.dropped_turn(turn_id));
                self.runtime.fork_session(parent.id, at, options).await?;
            }
            forked => drop(forked?),
        }
        self.thread(id).await
    }
}
