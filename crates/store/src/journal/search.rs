//! Looking for something in a stream, event by event.

use std::ops::ControlFlow;

use windlass_core::events::{Event, EventData};
use windlass_core::typed_id::TurnId;

use super::fork::PAGE;
use super::open_turns::TurnChange;
use super::{Journal, JournalError, StreamKey};

/// Goes through the events of a stream until told to stop; returns the number of its newest record.
pub(super) async fn scan<J: Journal + ?Sized>(
    journal: &J,
    stream: &StreamKey,
    mut look: impl FnMut(&Event) -> ControlFlow<()> + Send,
) -> Result<u64, JournalError> {
    let mut after = 0;
    loop {
        let page = journal.read(stream, after, PAGE).await?;
        for event in &page.events {
            after = event.seq();
            if look(event).is_break() {
                return Ok(page.head);
            }
        }
        if page.events.is_empty() || after >= page.head {
            return Ok(page.head);
        }
    }
}

/// A search for the end of a turn, from the first event on.
pub(super) struct TurnSearch {
    turn: TurnId,
    has_begun: bool,
    end: Option<u64>,
}

impl TurnSearch {
    pub(super) fn new(turn: TurnId) -> Self {
        Self {
            turn,
            has_begun: false,
            end: None,
        }
    }

    pub(super) fn look(&mut self, event: &Event) -> ControlFlow<()> {
        match &event.data {
            EventData::TurnStarted(data) => self.has_begun |= data.turn_id == self.turn,
            _ if self.has_begun && ends(event) == Some(self.turn) => {
                self.end = Some(event.seq());
                return ControlFlow::Break(());
            }
            _ => {}
        }
        ControlFlow::Continue(())
    }

    pub(super) fn end(&self) -> Option<u64> {
        self.end
    }
}

fn ends(event: &Event) -> Option<TurnId> {
    match TurnChange::of(event)? {
        TurnChange::Ends(turn) => Some(turn),
        TurnChange::Opens(_) => None,
    }
}
