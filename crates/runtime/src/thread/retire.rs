//! The end of a thread's life in a process that shuts down.

use std::time::Duration;

use windlass_core::error::{AgentLoopError, Result};

use windlass_turn::Input;

use super::actor::Actor;
use super::fault::Fault;
use super::mail::{Mail, Reply};

impl Actor {
    /// Begins nothing new, lets running tools come to their record, releases the turn and is gone. The turn stays open:
    /// whoever is asked to next goes on with it, and this end is no crash of it.
    pub(super) async fn retire(
        mut self: Box<Self>,
        patience: Duration,
        reply: Reply<()>,
    ) -> Result<()> {
        self.is_retiring = true;
        self.flush_chunk().await?;
        self.model = None;
        self.backend = None;
        // They wait for other sessions, which stop too; the next process asks those again.
        self.stop_spawning();
        let mut patience = self.inner.world.sleep(patience);
        while !self.tools.is_empty() {
            tokio::select! {
                biased;
                () = &mut patience => break,
                joined = self.tools.join_next_with_id() => self.tool_joined(joined).await?,
                () = self.slot.mail_arrived() => self.read_last_mail().await?,
            }
        }
        // A turn that this process has not taken up stays as the one before it left it.
        if self.is_at_work {
            self.decide(Input::Release).await?;
        }
        self.slot.fault(self.life, Fault::settled(SHUT_DOWN));
        let _ = reply.send(Ok(()));
        Ok(())
    }

    /// A running tool may still say how far it is. Everybody else comes too late.
    async fn read_last_mail(&mut self) -> Result<()> {
        while let Some(mail) = self.slot.next_mail() {
            match mail {
                mail @ Mail::Emit { .. } => self.read(mail).await?,
                mail => mail.refuse(AgentLoopError::ShuttingDown),
            }
        }
        Ok(())
    }
}

const SHUT_DOWN: &str = "the runtime was shut down";
