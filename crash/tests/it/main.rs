//! A runtime that is killed, that lives for long, and that is not alone.

mod crash;
mod lock;
mod soak;
