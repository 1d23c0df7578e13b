//! The values of core as others see them: on the wire, in a journal, in a query.

#![expect(
    clippy::unwrap_used,
    reason = "the lint spares tests, and does not know their helpers as such"
)]

mod events;
mod filters;
mod items;
mod thread_records;
