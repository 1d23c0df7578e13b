//! Rewinding the conversation to the end of a turn.

use windlass_core::events::SessionRewoundData;
use windlass_core::typed_id::TurnId;

use crate::decision::Rejected;
use crate::draft::Draft;

impl Draft<'_> {
    /// The journal is append-only, so a rewind is a record too. It requires an idle thread: running steps would continue a conversation that was
    /// dropped.
    pub(super) fn rewind(&mut self, turn_id: TurnId) -> Result<(), Rejected> {
        let running = self.turn().map(|turn| turn.id);
        let waiting = self.thread.queue.front().map(|next| next.turn_id);
        if let Some(busy) = running.or(waiting) {
            return Err(Rejected::Busy(busy));
        }
        let end = {
            let mut ends = self.thread.ends.iter().rev();
            ends.find(|end| end.turn_id == turn_id).copied()
        };
        let to_sequence = end.ok_or(Rejected::UnknownTurn(turn_id))?.seq;
        self.turn_id = Some(turn_id);
        self.record(SessionRewoundData::new(to_sequence, turn_id));
        Ok(())
    }
}
