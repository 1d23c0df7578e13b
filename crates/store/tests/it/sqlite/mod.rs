//! The stores in a database: the suites, and what only a database can go through.

mod backup;
mod damage;
mod exchange;
mod files;
mod fixture;
mod forks;
mod full;
mod groups;
mod host_records;
mod journal;
mod late_runs;
mod lost;
mod opening;
mod projection;
mod records;
mod restore;
mod retention;
mod runs;
mod spans;
mod storage;
mod support;
mod verify;
