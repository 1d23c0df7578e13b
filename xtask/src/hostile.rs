//! `hostile`: a hostile model that calls tools.

use crate::command;
use crate::error::XtaskError;
use crate::subcommand::XtaskCommand;

pub(crate) const COMMAND: XtaskCommand = XtaskCommand {
    name: "hostile",
    summary: "lets a hostile model call tools for 30 minutes next to honest sessions",
    help: "\
Builds the package windlass-crash in release mode and runs its hostile trial. First commands try to escape: to outlive a command, its time,
an interrupt and a killed host by forking without end, to take the port of a killed host, and to reach shared memory and the home of
the user; what this machine cannot hold is SKIPPED by name. Then a model calls files tools and commands with values
that have broken something somewhere, in random combinations, while honest sessions work beside it. Honest turns all complete,
nothing outside of the root changes, and memory, disk and file descriptors level off. `cargo xtask test` does the same for 15
seconds. The seed is printed. Before that it runs the tests of attacks on the daemon: clients that do not read, a token that is revoked
while a request arrives, and an external agent that floods its output.

Usage: cargo xtask hostile [--seconds N] [--seed S] [--sandbox bubblewrap|landlock] [--escapes-only]

Examples:
  cargo xtask hostile
  cargo xtask hostile --seconds 60 --sandbox landlock
  cargo xtask hostile --escapes-only --sandbox landlock
",
    run,
};

/// Packages with the tests that attack a daemon.
const DAEMON_ATTACKS: [(&str, &[&str]); 2] = [
    (
        "windlass-server",
        &["slow_readers::", "token_revoked_while_a_body_arrives"],
    ),
    ("windlass", &["backend_output::"]),
];

fn run(arguments: &[String]) -> Result<(), XtaskError> {
    for (package, tests) in DAEMON_ATTACKS {
        let mut cargo = command::cargo();
        cargo.args(["test", "-p", package, "--test", "it", "--"]);
        cargo.args(tests);
        command::run(cargo)?;
    }
    let mut cargo = command::cargo();
    cargo.args(["run", "--release", "-p", "windlass-crash", "--", "hostile"]);
    cargo.args(arguments);
    command::run(cargo)
}
