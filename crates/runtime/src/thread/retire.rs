//! The end of a thread in a process that shuts down.

use std::time::Duration;

use windlass_core::error::{AgentLoopError, Result};

use windlass_turn::Input;

use super::actor::Actor;
use super::command::{ReplySender, ThreadCommand};
use super::fault::ThreadFault;

impl Actor {
    /// Starts nothing new, waits until the results of running tools are recorded, releases the turn and ends. The turn stays open: the next process
    /// that resumes it continues it, and does not count a crash.
    pub(super) async fn retire(
        mut self: Box<Self>,
        patience: Duration,
        reply: ReplySender<()>,
    ) -> Result<()> {
        self.is_retiring = true;
        self.flush_chunk().await?;
        self.model = None;
        self.backend = None;
        // These calls wait for other sessions, which stop too; the next process repeats the calls.
        self.stop_spawning();
        let mut patience = self.inner.clock.sleep(patience);
        while !self.tools.is_empty() {
            tokio::select! {
                biased;
                () = &mut patience => break,
                joined = self.tools.join_next_with_id() => self.tool_joined(joined).await?,
                () = self.slot.command_arrived() => self.read_last_commands().await?,
            }
        }
        // A turn that this process has not resumed is left unchanged.
        if self.executes_turn {
            self.decide(Input::Release).await?;
        }
        self.slot
            .fault(self.actor_id, ThreadFault::settled(SHUT_DOWN));
        let _ = reply.send(Ok(()));
        Ok(())
    }

    /// A running tool may still report progress. All other commands are too late.
    async fn read_last_commands(&mut self) -> Result<()> {
        while let Some(command) = self.slot.next_command() {
            match command {
                ThreadCommand::Record { input, reply } if matches!(*input, Input::Emit { .. }) => {
                    self.read(ThreadCommand::Record { input, reply }).await?;
                }
                command => command.refuse(AgentLoopError::ShuttingDown),
            }
        }
        Ok(())
    }
}

const SHUT_DOWN: &str = "the runtime was shut down";
