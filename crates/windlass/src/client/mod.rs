//! How a command uses the Runtime API: the connection to its daemon, the calls, and the threads that it shows.

pub(crate) mod calls;
pub(crate) mod connect;
pub(crate) mod follow;
pub(crate) mod ids;
pub(crate) mod mentions;
#[cfg(test)]
pub(crate) mod stub_api_test;
pub(crate) mod thread_session;
pub(crate) mod thread_status;
