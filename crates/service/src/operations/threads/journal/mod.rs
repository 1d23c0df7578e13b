//! The record of a thread: its raw records, its state after one of them, and the check of its chain.

mod records;
mod state;
mod verify;
