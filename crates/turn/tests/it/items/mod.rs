//! What people see of any turn that the machine can make.

mod player;
mod properties;
mod transcript;
