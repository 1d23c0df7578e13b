//! Small values and pure helpers that every other module uses.

pub mod bounds;
pub mod budget;
pub(crate) mod clock;
pub mod derived_id;
pub mod digest;
pub mod error;
pub mod lock;
pub(crate) mod moment;
pub mod recent_values;
pub(crate) mod shared_list;
pub mod typed_id;
