//! Going on with turns that an earlier process left open.

use tokio::task::JoinSet;
use windlass_core::error::Result;
use windlass_core::typed_id::SessionId;

use super::InProcessRuntime;
use crate::thread::Mail;
use crate::turn_result::TurnHandle;

/// How many threads are woken at a time; their records share commits.
const MAX_WAKING: usize = 64;

impl InProcessRuntime {
    /// Takes up every turn that an earlier process left open, and every input that still waits for its turn; returns a
    /// handle for each session in which there is one. Dropping a handle cancels nothing.
    ///
    /// When this returns, every turn that can go on does, and that it does is on record: from then on this process is at
    /// work on them, and if it goes down before they end that is a crash of theirs. Stop it in order with
    /// [`shutdown`](Self::shutdown). A turn that has brought down three processes in a row, or ten in all, fails here. One that cannot go on,
    /// because its journal is damaged or something that it needs is missing, keeps no other from going on: it is logged,
    /// stays open, and [`resume_open_turn`](Self::resume_open_turn) says why.
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
        let mut waking = JoinSet::new();
        let mut turns = Vec::new();
        for session_id in self.inner.unfinished().await? {
            if waking.len() >= MAX_WAKING
                && let Some(Ok(turn)) = waking.join_next().await
            {
                turns.extend(turn);
            }
            let runtime = self.clone();
            waking.spawn(async move {
                let resumed = runtime.resume_open_turn(session_id).await;
                resumed.unwrap_or_else(|error| {
                    tracing::error!(session = %session_id, %error, "a turn of an earlier life cannot go on");
                    None
                })
            });
        }
        while let Some(joined) = waking.join_next().await {
            turns.extend(joined.ok().flatten());
        }
        Ok(turns)
    }

    /// Takes up the turn of a session that an earlier process left open, or the input that waits for its turn; `None` where
    /// there is neither. A turn that this process is at work on already simply goes on.
    pub async fn resume_open_turn(&self, session_id: SessionId) -> Result<Option<TurnHandle>> {
        let slot = self.inner.slot(session_id).await?;
        slot.ask(&self.inner, |reply| Mail::Resume { reply }).await
    }
}
