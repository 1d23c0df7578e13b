//! Operations on turns: starting, steering, queueing and interrupting them, and answering their requests.

pub(crate) mod approvals;
pub(crate) mod attachments;
pub(crate) mod compact;
pub(crate) mod interrupt;
pub(crate) mod one_shot;
pub(crate) mod one_shot_frames;
pub(crate) mod queue;
pub(crate) mod results;
pub(crate) mod start;
pub(crate) mod steer;
pub(crate) mod user_input;
pub(crate) mod waits;
