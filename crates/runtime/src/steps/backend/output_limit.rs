//! Limits how much of an external agent's output one turn records.

use windlass_core::backend::{BackendError, BackendErrorKind, BackendEvent, BackendNotice};
use windlass_core::bounds::json_bytes;

/// Approximate size of a record without its content.
const RECORD_BYTES: usize = 512;

/// Counts the recorded bytes of a turn up to a limit.
pub(crate) struct OutputLimit {
    recorded: usize,
    max: usize,
    is_reached: bool,
}

/// Whether an output is recorded.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Admission {
    Recorded,
    /// The first output beyond the limit.
    Exceeds(BackendError),
    Dropped,
}

impl OutputLimit {
    pub(super) fn new(recorded: usize, max: usize) -> Self {
        Self {
            recorded,
            max,
            is_reached: false,
        }
    }

    pub(super) fn admit(&mut self, bytes: usize) -> Admission {
        if self.is_reached {
            return Admission::Dropped;
        }
        self.recorded = self.recorded.saturating_add(bytes);
        if self.recorded <= self.max {
            return Admission::Recorded;
        }
        self.is_reached = true;
        let message = format!(
            "a turn records at most {} bytes of its output; ask for less at once",
            self.max
        );
        Admission::Exceeds(BackendError::new(BackendErrorKind::OutputLimit, message))
    }
}

/// Returns the approximate size of an event's record. Text and the output of calls are joined into their own records; call output is counted where it
/// is truncated.
pub(super) fn recorded_bytes(event: &BackendEvent) -> usize {
    match event {
        BackendEvent::Text {
            text, parent: None, ..
        }
        | BackendEvent::Thinking { text, parent: None } => text.len(),
        BackendEvent::ToolStarted(call) => {
            RECORD_BYTES + call.name.len() + json_bytes(&call.arguments)
        }
        BackendEvent::ToolCompleted(result) => RECORD_BYTES + json_bytes(&result.output),
        BackendEvent::Permission(request) => {
            RECORD_BYTES + request.name.len() + json_bytes(&request.arguments)
        }
        BackendEvent::Notice(
            BackendNotice::Retry { message: text, .. }
            | BackendNotice::Warning(text)
            | BackendNotice::Raw { line: text, .. },
        ) => RECORD_BYTES + text.len(),
        BackendEvent::Started { .. }
        | BackendEvent::PermissionWithdrawn { .. }
        | BackendEvent::Notice(_) => RECORD_BYTES,
        BackendEvent::Text { .. }
        | BackendEvent::Thinking { .. }
        | BackendEvent::ToolOutput { .. }
        | BackendEvent::Usage(_) => 0,
    }
}

/// Returns whether an event ends something that was recorded before; such events are always admitted.
pub(super) fn is_end(event: &BackendEvent) -> bool {
    matches!(
        event,
        BackendEvent::Started { .. }
            | BackendEvent::ToolCompleted(_)
            | BackendEvent::PermissionWithdrawn { .. }
            | BackendEvent::Usage(_)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_is_exceeded_once_and_nothing_is_recorded_after_it() {
        let mut limit = OutputLimit::new(10, 20);
        assert_eq!(limit.admit(10), Admission::Recorded);
        assert!(matches!(limit.admit(1), Admission::Exceeds(_)));
        assert_eq!(limit.admit(0), Admission::Dropped);
    }
}
