//! The orderly end of a runtime.

use std::time::Duration;

use super::InProcessRuntime;
use crate::panics::catch_panic_async;

impl InProcessRuntime {
    /// Stops all work at a recorded point, before the process exits. From now on inputs are rejected with [`AgentLoopError::ShuttingDown`]. Model
    /// calls are cut off with their text so far on record, and the processes of external agents are ended. Running tools get `patience` to finish.
    ///
    /// This ends no turn: with a durable journal each open turn is released, which is recorded, and continues when it is
    /// [resumed](Self::resume_open_turns). So an orderly stop never counts as a crash of a turn. Callers that wait for a turn get an error that the
    /// runtime was shut down.
    ///
    /// Events can still be read. A second call has no effect.
    ///
    /// [`AgentLoopError::ShuttingDown`]: windlass_core::AgentLoopError::ShuttingDown
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use windlass_core::{AgentLoopError, llmsim_driver::LlmSimConfig};
    /// # use windlass_runtime::InProcessRuntimeBuilder;
    /// # tokio::runtime::Runtime::new().unwrap().block_on(async {
    /// # let runtime = InProcessRuntimeBuilder::new()
    /// #     .llm_sim(LlmSimConfig::fixed("Hello."))
    /// #     .single_session(|s| s.harness("h", "p").agent("a", "p"))
    /// #     .build()
    /// #     .await?;
    /// # let session = runtime.default_session_id().expect("single_session makes one");
    /// runtime.shutdown(Duration::from_secs(10)).await;
    /// let late = runtime.run_text_turn(session, "Hi").await;
    /// assert!(matches!(late, Err(AgentLoopError::ShuttingDown)));
    /// # Ok::<(), AgentLoopError>(())
    /// # }).unwrap();
    /// ```
    pub async fn shutdown(&self, patience: Duration) {
        let slots = self.inner.stop();
        slots.iter().for_each(|slot| slot.process.begin_close());
        let retiring: Vec<_> = slots
            .iter()
            .filter_map(|slot| slot.retire(patience))
            .collect();
        for retired in retiring {
            // An actor that panicked has ended as well.
            let _ = retired.await;
        }
        for slot in &slots {
            slot.process.close().await;
        }
        if let Some(mcp) = &self.inner.mcp {
            mcp.close().await;
        }
        for capability in self.inner.platform.capability_registry().list() {
            let _ = catch_panic_async(capability.close()).await;
        }
    }
}
