//! The stores in a database: the suites, and what only a database can go through.

mod backup;
mod backups;
mod damage;
mod exchange;
mod files;
mod fixture;
mod forks;
mod full;
mod groups;
mod host_records;
mod import_killed;
mod journal;
mod lost;
mod opening;
mod outside;
mod queries;
mod records;
mod restore;
mod retention;
mod rights;
mod rows_trouble;
mod runs;
mod spans;
mod storage;
mod support;
mod verify;
