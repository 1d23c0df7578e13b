//! Changes of a queued input.

use windlass_core::events::InputEditedData;
use windlass_core::typed_id::TurnId;

use super::begin::check_content;
use crate::decision::Rejected;
use crate::draft::Draft;
use crate::input::QueueEdit;

impl Draft<'_> {
    /// Records only fields that differ, so that a repeated edit records nothing.
    pub(super) fn edit_queued(
        &mut self,
        turn_id: TurnId,
        QueueEdit { content, position }: QueueEdit,
    ) -> Result<(), Rejected> {
        let mut queue = self.thread.queue.iter().enumerate();
        let found = queue.find(|(_, queued)| queued.turn_id == turn_id);
        let (at, queued) = found.ok_or(Rejected::NotQueued(turn_id))?;
        let content = content.filter(|content| *content != queued.message.content);
        check_content(content.as_deref().unwrap_or_default())?;
        let last = self.thread.queue.len() - 1;
        let position = position.map(|to| to.min(last)).filter(|to| *to != at);
        self.turn_id = Some(turn_id);
        self.message_id = Some(queued.message.id);
        if content.is_some() || position.is_some() {
            self.record(InputEditedData {
                turn_id,
                content,
                position,
            });
        }
        Ok(())
    }

    pub(super) fn remove_queued(
        &mut self,
        turn_id: TurnId,
        reason: Option<String>,
    ) -> Result<(), Rejected> {
        self.cancel_queued(turn_id, reason)
            .map_err(|_| Rejected::NotQueued(turn_id))
    }
}
