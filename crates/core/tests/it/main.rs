//! The values of core as others see them: on the wire, in a journal, in a query.

mod events;
mod filters;
