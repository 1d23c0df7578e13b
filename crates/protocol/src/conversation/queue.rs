//! Input for a busy thread, and the queue of inputs that wait for their turns.

use windlass_macros::wire;

/// Handling of the input of `POST …/turns` while the thread has an open turn.
#[wire(Copy, Eq, Hash, Default, snake_case)]
pub enum OnBusy {
    /// The request fails with `turn_active`.
    #[default]
    Refuse,
    /// The input waits until the turns before it have ended.
    Queue,
    /// The input joins the running turn; the other options of the request do not apply.
    Steer,
    /// The running turn is interrupted, and the input starts the next one.
    Interrupt,
}

/// An input that waits for its turn.
#[wire(Eq)]
pub struct QueuedInput {
    /// The turn that the input will start.
    pub turn_id: String,
    /// The index in the queue, from 0: the input that starts next.
    pub position: u64,
    /// Plain text, UTF-8.
    pub prompt: String,
    /// The beginning of the text, or the client's own summary of it.
    pub input_summary: String,
    /// When the input was accepted.
    pub created_at: String,
}

/// The answer of `GET …/queue`.
#[wire(Eq)]
pub struct InputQueue {
    /// The queued inputs, the next one first.
    pub queue: Vec<QueuedInput>,
}

/// The body of `PATCH …/queue/{turn_id}`: at least one field.
#[wire(Default, Eq, omit_none)]
pub struct EditQueuedInput {
    /// The new text. It also replaces the client's own summary.
    pub prompt: Option<String>,
    /// The new index, from 0. An index past the end is the last one.
    pub position: Option<u64>,
}
