//! The stores in a database: the suites, and what only a database can go through.

mod groups;
mod journal;
mod support;
