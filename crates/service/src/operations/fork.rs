//! Forks: new threads that start with the history of another one, complete or up to a turn.
//!
//! The journal shares the records, so the cost of a fork does not depend on the length of the thread. Shared records are not events of the fork; its
//! detail shows them under IDs of the fork.

use chrono::Utc;
use windlass_core::error::AgentLoopError;
use windlass_core::thread_record::ThreadRecord;
use windlass_core::typed_id::TurnId;
use windlass_protocol::api::Call;
use windlass_protocol::operations as op;
use windlass_protocol::{ErrorCode, ForkThread, Mode, Thread};
use windlass_runtime::{ForkAt, ForkOptions};
use windlass_store::queries::TurnRow;

use super::RequestContext;
use super::thread_record::stored_mode;
use crate::error::{ApiError, Result};
use crate::handle::Handle;
use crate::service::Service;
use crate::threads::FoundThread;

/// The end of the shared history, and the fork's own settings.
pub(super) struct Cut {
    at: ForkAt,
    /// The ID of the first turn that is not shared, as the parent shows it.
    dropped: Option<TurnId>,
    depth: Option<u32>,
    model: Option<String>,
    mode: Option<Mode>,
}

impl Cut {
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
    pub(super) fn before(found: &FoundThread, turn: &TurnRow, depth: u32) -> Self {
        Self {
            dropped: Some(found.name_of(turn)),
            depth: Some(depth),
            ..Self::at(ForkAt::Before(turn.view.id))
        }
    }
}

/// Creates a thread that starts with the history of another one.
impl Handle<op::ForkThread> for Service {
    async fn handle(&self, context: &RequestContext, call: Call<op::ForkThread>) -> Result<Thread> {
        let id = &call.path.id;
        let request = call.request;
        let parent = self.find(id).await?;
        self.fork_found(context, &parent, request, None).await
    }
}

impl Service {
    /// Creates a fork, optionally with another mode.
    pub(super) async fn fork_found(
        &self,
        context: &RequestContext,
        parent: &FoundThread,
        request: ForkThread,
        mode: Option<Mode>,
    ) -> Result<Thread> {
        if let Some(made) = self.made_before(context).await? {
            return Ok(made.thread);
        }
        let chosen = self.chosen();
        let is_external = self.is_external(parent.thread.backend.as_deref());
        let model = request.model.as_deref().map(|name| {
            if is_external {
                chosen.models.name_for_agent(Some(name))
            } else {
                chosen.models.name(Some(name))
            }
        });
        let at = match &request.turn_id {
            Some(name) => ForkAt::Turn(self.turn_named(parent, name).await?.view.id),
            None => ForkAt::Latest,
        };
        let cut = Cut {
            model: model.transpose()?,
            mode,
            ..Cut::at(at)
        };
        self.take_room(context).await?;
        Ok(self.make_fork(context, parent, cut).await?.thread)
    }

    /// Finds the first turn to drop: the one of an earlier attempt, or the one at a depth.
    pub(super) async fn turn_to_drop(
        &self,
        found: &FoundThread,
        depth: u32,
        made: Option<&FoundThread>,
    ) -> Result<TurnRow> {
        if let Some(dropped) = made.and_then(|made| made.row.origin?.dropped) {
            return self.turn_named(found, &dropped.to_string()).await;
        }
        let mut said: u32 = 0;
        let is_meant = |turn: &TurnRow| {
            // A compaction turn answers no prompt, so it is not counted.
            let is_said = turn.view.outline.compaction.is_none();
            let is_meant = is_said && said == depth;
            said += u32::from(is_said);
            is_meant
        };
        if let Some(turn) = self.turn_back(found, is_meant).await? {
            return Ok(turn);
        }
        let mut text = format!("fork_at_user_message: depth {depth} exceeds {said} user turn(s)");
        if self.has_pruned_turns(found).await? {
            text.push_str(", because retention removed the records of those before");
        }
        Err(ApiError::new(ErrorCode::DepthOutOfRange, text))
    }

    /// Creates a fork; the caller has checked the limits. It takes one commit of the journal and one of the session's record.
    pub(super) async fn make_fork(
        &self,
        context: &RequestContext,
        parent: &FoundThread,
        cut: Cut,
    ) -> Result<FoundThread> {
        let id = self.new_thread_id(context);
        let (now, of_parent) = (Utc::now(), parent.record.clone());
        let mut record = ThreadRecord {
            created_at: now,
            updated_at: now,
            latest_turn_id: None,
            archived: false,
            policy: of_parent.policy.inherited(),
            // No turn waits for the fork of a child thread.
            parent: None,
            ..of_parent
        };
        if let Some(mode) = cut.mode {
            record.policy.mode = stored_mode(mode);
        }
        if let Some(model) = cut.model {
            self.chosen().models.set(&mut record.policy, model);
        }
        let mut options = ForkOptions::new().id(id).record(record);
        if let Some(depth) = cut.depth {
            options = options.depth(depth);
        }
        if let Some(dropped) = cut.dropped {
            options = options.dropped_turn(dropped);
        }
        let forking = self
            .runtime
            .fork_session(parent.id, cut.at, options.clone());
        match forking.await {
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
