//! Going back: a fork without the last turns.

use windlass_protocol::{UndoThread, UndoneThread};

use super::Asked;
use super::fork::Cut;
use super::retry::said_in;
use crate::app::App;
use crate::error::ApiError;

impl App {
    /// Makes a thread without the last turns of another one.
    pub(crate) async fn undo_turns(
        &self,
        asked: &Asked,
        id: &str,
        UndoThread { depth }: UndoThread,
    ) -> Result<UndoneThread, ApiError> {
        let parent = self.find(id).await?;
        let made = self.made_before(asked).await?;
        let turn = self.turn_to_drop(&parent, depth, made.as_ref()).await?;
        let original_user_text = said_in(self.first_input(&parent, &turn).await?.as_deref());
        let fork = match made {
            Some(made) => made,
            None => {
                let cut = Cut::before(&parent, &turn, depth);
                self.make_fork(asked, &parent, cut).await?
            }
        };
        Ok(UndoneThread {
            thread: fork.thread,
            original_user_text,
        })
    }
}
