//! Builders of records: by value, chainable, and never failing.

mod agent;
mod harness;
mod session;
mod single_session;

pub use agent::AgentBuilder;
pub use harness::HarnessBuilder;
pub use session::SessionBuilder;
pub use single_session::SingleSessionBuilder;

/// The time at which a record is created, unless the caller sets it.
#[expect(
    clippy::disallowed_methods,
    reason = "a builder works before there is a runtime to ask for the time"
)]
fn now() -> chrono::DateTime<chrono::Utc> {
    chrono::Utc::now()
}
