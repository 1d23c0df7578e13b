//! Steps: the effects of a turn.

pub(crate) mod arguments;
pub(crate) mod backend;
mod egress;
mod emitter;
pub(crate) mod model;
pub(crate) mod output;
pub(crate) mod prompt_view;
pub(crate) mod side_call;
pub(crate) mod stream_buffer;
pub(crate) mod tool;
