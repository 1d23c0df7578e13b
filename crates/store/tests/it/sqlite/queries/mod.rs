//! The read model in a database: the suite, and what only a database can go through.

mod behind;
mod cursors;
mod differences;
mod forks;
mod kept;
mod play;
mod retained;
mod rules;
mod runs;
mod same;
mod shown;
