//! OpenAI's Responses API.

pub(crate) mod request;
pub(crate) mod stream;

pub(crate) use request::enforced;
