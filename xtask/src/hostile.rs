//! `hostile`: lets a hostile model try what it can.

use crate::command;
use crate::failure::Failure;
use crate::word::Word;

pub(crate) const WORD: Word = Word {
    name: "hostile",
    summary: "lets a hostile model call tools for 30 minutes beside honest sessions",
    help: "\
Builds the package windlass-crash in release mode and runs its hostile trial. First commands try to escape: to outlive a command, its time,
an interrupt and a killed host by forking without end, to take the port of a killed host, and to reach shared memory and the home of
the user; what this machine cannot hold is SKIPPED by name. Then a model calls files tools and commands with values
that have broken something somewhere, in random combinations, while honest sessions work beside it. Honest turns all complete,
nothing outside of the root changes, and memory, disk and file descriptors level off. `cargo xtask test` does the same for 15
seconds. The seed is printed.

Usage: cargo xtask hostile [--seconds N] [--seed S] [--sandbox bubblewrap|landlock] [--escapes-only]

Examples:
  cargo xtask hostile
  cargo xtask hostile --seconds 60 --sandbox landlock
  cargo xtask hostile --escapes-only --sandbox landlock
",
    run,
};

fn run(arguments: &[String]) -> Result<(), Failure> {
    let mut cargo = command::cargo();
    cargo.args(["run", "--release", "-p", "windlass-crash", "--", "hostile"]);
    cargo.args(arguments);
    command::run(cargo)
}
