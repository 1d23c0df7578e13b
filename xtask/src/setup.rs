//! `setup`: the system packages that some tests need.

use std::process::Command;

use crate::command;
use crate::error::XtaskError;
use crate::subcommand::{XtaskCommand, no_arguments};
use crate::tally::Tally;

pub(crate) const COMMAND: XtaskCommand = XtaskCommand {
    name: "setup",
    summary: "installs the system packages that some tests need",
    help: "\
Installs what is missing of the system packages that tests can use, with apt-get: as root, or by sudo where that asks for no
password. Elsewhere it names them and fails. Nothing else of the project needs them: tests that lack one say SKIPPED.
`cargo xtask test` calls this only if the variable CI is `true`, so that it changes no personal machine.

Usage: cargo xtask setup
",
    run,
};

/// A system package, identified by one of its programs.
struct Package {
    name: &'static str,
    program: &'static str,
    used_for: &'static str,
}

const PACKAGES: &[Package] = &[
    Package {
        name: "bubblewrap",
        program: "bwrap",
        used_for: "the better of the two sandboxes",
    },
    Package {
        name: "chromium",
        program: "chromium",
        used_for: "tests of the web console",
    },
    Package {
        name: "chromium-driver",
        program: "chromedriver",
        used_for: "tests of the web console",
    },
    Package {
        name: "git",
        program: "git",
        used_for: "the state of workspaces",
    },
    Package {
        name: "postgresql",
        program: "pg_ctl",
        used_for: "tests of the PostgreSQL store",
    },
    Package {
        name: "sqlite3",
        program: "sqlite3",
        used_for: "backups made by another program",
    },
];

fn run(arguments: &[String]) -> Result<(), XtaskError> {
    no_arguments(COMMAND.name, arguments)?;
    let missing = missing();
    if missing.is_empty() {
        println!("nothing is missing");
        return Ok(());
    }
    install(&missing)
}

/// Installs missing packages if `CI=true`. The tests report and skip whatever cannot be installed.
pub(crate) fn in_ci(_: &mut Tally) -> Result<(), XtaskError> {
    let is_ci = std::env::var_os("CI").is_some_and(|value| value == "true");
    let missing = missing();
    for package in &missing {
        eprintln!("{} is missing: {}", package.name, package.used_for);
    }
    if is_ci
        && !missing.is_empty()
        && let Err(failure) = install(&missing)
    {
        eprintln!("{failure}");
    }
    Ok(())
}

fn missing() -> Vec<&'static Package> {
    let is_missing = |package: &&Package| {
        let mut probe = Command::new(package.program);
        probe.arg("--version");
        !command::works(probe)
    };
    PACKAGES.iter().filter(is_missing).collect()
}

fn install(packages: &[&Package]) -> Result<(), XtaskError> {
    let names: Vec<_> = packages.iter().map(|package| package.name).collect();
    let Some(apt) = apt_get() else {
        return Err(XtaskError::Missing(format!(
            "install {} by hand: there is no apt-get that may be used here without a password",
            names.join(", ")
        )));
    };
    eprintln!("installing {}", names.join(", "));
    let mut update = apt();
    update.args(["update", "-qq"]);
    command::run_quietly(update)?;
    let mut install = apt();
    install
        .args(["install", "-y", "-qq", "--no-install-recommends"])
        .args(names);
    command::run_quietly(install)
}

/// Returns the command that runs apt-get with sufficient rights.
fn apt_get() -> Option<fn() -> Command> {
    let direct: fn() -> Command = || {
        let mut apt = Command::new("apt-get");
        apt.env("DEBIAN_FRONTEND", "noninteractive");
        apt
    };
    let by_sudo: fn() -> Command = || {
        let mut sudo = Command::new("sudo");
        sudo.args(["-n", "env", "DEBIAN_FRONTEND=noninteractive", "apt-get"]);
        sudo
    };
    let may_install = |make: &fn() -> Command| {
        let mut probe = make();
        probe.arg("check");
        command::works(probe)
    };
    [direct, by_sudo].into_iter().find(may_install)
}
