//! The values of core as others see them: on the wire, in a journal, in a query.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod events;
mod filters;
