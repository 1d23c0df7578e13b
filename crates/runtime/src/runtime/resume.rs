//! Resumes turns that a previous process left open.

use tokio::task::JoinSet;
use windlass_core::error::Result;
use windlass_core::typed_id::SessionId;

use super::InProcessRuntime;
use crate::thread::ThreadCommand;
use crate::turn_result::TurnHandle;

/// Number of threads loaded at a time; their records share commits.
const MAX_RESUMING: usize = 64;

impl InProcessRuntime {
    /// Resumes every turn that a previous process left open, and starts every queued input. Returns a handle for each such session. Dropping a handle
    /// cancels nothing.
    ///
    /// When this returns, the resumption of every turn that can continue is recorded. From then on this process executes them, and a crash before
    /// their end counts against them; use [`shutdown`](Self::shutdown) for an orderly stop. A turn whose process has crashed three times in a row, or
    /// ten times in all, fails here. If a turn cannot be resumed, because its journal is damaged or a dependency is missing, it is logged and stays
    /// open, and the others are resumed. [`resume_open_turn`](Self::resume_open_turn) returns the reason.
    ///
    /// ```
    /// # use windlass_core::llmsim_driver::LlmSimConfig;
    /// # use windlass_runtime::InProcessRuntimeBuilder;
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
    /// # let runtime = InProcessRuntimeBuilder::new()
    /// #     .llm_sim(LlmSimConfig::fixed("Hello!"))
    /// #     .single_session(|session| session.agent("greeter", "You greet people."))
    /// #     .build()
    /// #     .await?;
    /// for turn in runtime.resume_open_turns().await? {
    ///     let session_id = turn.session_id();
    ///     println!("{session_id}: {}", turn.wait().await?.response);
    /// }
    /// # Ok::<(), windlass_core::AgentLoopError>(())
    /// # }).unwrap();
    /// ```
    pub async fn resume_open_turns(&self) -> Result<Vec<TurnHandle>> {
        let mut resuming = JoinSet::new();
        let mut turns = Vec::new();
        for session_id in self.inner.unfinished_sessions().await? {
            if resuming.len() >= MAX_RESUMING
                && let Some(Ok(turn)) = resuming.join_next().await
            {
                turns.extend(turn);
            }
            let runtime = self.clone();
            resuming.spawn(async move {
                let resumed = runtime.resume_open_turn(session_id).await;
                resumed.unwrap_or_else(|error| {
                    tracing::error!(session = %session_id, %error, "a turn of a previous process cannot be resumed");
                    None
                })
            });
        }
        while let Some(joined) = resuming.join_next().await {
            turns.extend(joined.ok().flatten());
        }
        Ok(turns)
    }

    /// Resumes the turn of a session that a previous process left open, or starts its queued input. Returns `None` if there is neither. A turn that
    /// this process already executes is unaffected.
    pub async fn resume_open_turn(&self, session_id: SessionId) -> Result<Option<TurnHandle>> {
        self.ask(session_id, |reply| ThreadCommand::Resume { reply })
            .await
    }
}
