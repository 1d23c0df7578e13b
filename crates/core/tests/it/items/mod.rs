//! Turns and items, folded from events that are written by hand.

mod any_order;
mod changes;
mod fold;
mod journal;
mod texts;
