//! What people see of any turn that the machine can make.

pub(crate) mod player;
mod properties;
