//! Builders of records: by value, chainable, and never failing.

mod agent;
mod harness;
mod session;
mod single_session;

pub use agent::AgentBuilder;
pub use harness::HarnessBuilder;
pub use session::SessionBuilder;
pub use single_session::SingleSessionBuilder;

/// Setters that change the builder's record.
macro_rules! setters {
    ($($(#[$doc:meta])* $name:ident($ty:ty) |$record:ident, $value:ident| $change:expr;)*) => {$(
        $(#[$doc])*
        #[must_use]
        pub fn $name(mut self, value: $ty) -> Self {
            let $record = &mut self.record;
            let $value = value;
            $change;
            self
        }
    )*};
}
use setters;

/// Records are stamped when they are built, unless the caller sets the time.
#[expect(
    clippy::disallowed_methods,
    reason = "a builder works before there is a runtime to ask for the time"
)]
fn now() -> chrono::DateTime<chrono::Utc> {
    chrono::Utc::now()
}
