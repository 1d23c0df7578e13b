//! Going back: a fork without the last turns.

use windlass_protocol::{UndoThread, UndoneThread};

use super::Asked;
use super::fork::Cut;
use super::retry::said_in;
use crate::error::Result;

impl Asked {
    /// Makes a thread without the last turns of another one.
    pub(crate) async fn undo_turns(
        &self,
        id: &str,
        UndoThread { depth }: UndoThread,
    ) -> Result<UndoneThread> {
        let parent = self.find(id).await?;
        let made = self.made_before().await?;
        let turn = self.turn_to_drop(&parent, depth, made.as_ref()).await?;
        let original_user_text = said_in(self.first_input(&parent, &turn).await?.as_deref());
        let fork = match made {
            Some(made) => made,
            None => {
                let cut = Cut::before(&parent, &turn, depth);
                self.make_fork(&parent, cut).await?
            }
        };
        Ok(UndoneThread {
            thread: fork.thread,
            original_user_text,
        })
    }
}
