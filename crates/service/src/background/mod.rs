//! Background loops, the maintenance of the store, and readiness.

pub(crate) mod readiness;
pub(crate) mod supervise;
pub(crate) mod upkeep;
