//! `environments`: the tests under hostile values of the caller's environment.

use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::command;
use crate::error::XtaskError;
use crate::subcommand::XtaskCommand;
use crate::tally::Tally;
use crate::terminal::bold;
use crate::verify::FEATURES;

pub(crate) const COMMAND: XtaskCommand = XtaskCommand {
    name: "environments",
    summary: "all tests under other priorities, umasks, locales, time zones, homes, limits, users and without bubblewrap",
    help: "\
Builds the tests of the workspace once and runs them, without doc tests, in each of these environments:

  values         nice -n 5, umask 002, locale C, time zone Asia/Kathmandu, HOME and TMPDIR with blanks and non-ASCII characters
  values-no-bwrap  the same with bubblewrap hidden; as root, with unshare
  user           the same as `values`, as a user without rights; as root, with setpriv, where that user can read the workspace
  user-no-bwrap  both
  files          256 open files

To find the cause of a failure, `--only` also runs a single value: nice, umask, locale, zone or directories. With names of packages
only their tests run. The last lines on stdout are the results of each environment and their sum.

Usage: cargo xtask environments [--only NAME]... [PACKAGE]...

Examples:
  cargo xtask environments
  cargo xtask environments --only umask --only zone windlass-store windlass-jobs
",
    run,
};

/// User and group ID of the environments with another user.
const UNPRIVILEGED: &str = "65534";

/// Sets all values except the priority; `$ODD` is a world-writable directory.
const VALUES: &str =
    "umask 002; export LANG=C LC_ALL=C TZ=Asia/Kathmandu HOME=\"$ODD/home\" TMPDIR=\"$ODD/tmp\"; ";

struct TestEnvironment {
    name: &'static str,
    /// Whether it runs by default, and not only by name.
    is_default: bool,
    hides_bubblewrap: bool,
    is_other_user: bool,
    /// Shell commands before the test program, up to `exec`.
    values: &'static [&'static str],
}

impl TestEnvironment {
    const fn all_values(name: &'static str) -> Self {
        Self {
            name,
            is_default: true,
            hides_bubblewrap: false,
            is_other_user: false,
            values: &[VALUES, "exec nice -n 5 "],
        }
    }

    const fn one_value(name: &'static str, values: &'static [&'static str]) -> Self {
        Self {
            is_default: false,
            values,
            ..Self::all_values(name)
        }
    }

    /// Returns the command that starts a test program in this environment.
    fn command(&self, program: &Path) -> Command {
        let mut script = String::new();
        let mut command = Command::new("sh");
        if self.hides_bubblewrap {
            command = Command::new("unshare");
            command.args(["--mount", "sh"]);
            script.push_str(HIDE_BUBBLEWRAP);
        }
        script.extend(self.values.iter().copied());
        if self.is_other_user {
            let _ = write!(
                script,
                "setpriv --reuid {UNPRIVILEGED} --regid {UNPRIVILEGED} --clear-groups "
            );
        }
        script.push_str("\"$@\"");
        command.args(["-c", &script, "sh"]).arg(program);
        command
    }

    /// Returns why this machine cannot offer the environment.
    fn obstacle(&self, programs: &[Program]) -> Option<&'static str> {
        if self.hides_bubblewrap && !can_hide_bubblewrap() {
            Some("only root can hide bubblewrap, with unshare")
        } else if self.is_other_user && !has_user(programs) {
            Some("not root, no setpriv, or the workspace is not readable for others")
        } else {
            None
        }
    }
}

const HIDE_BUBBLEWRAP: &str =
    "if bwrap=$(command -v bwrap); then mount --bind /dev/null \"$bwrap\" || exit 1; fi; ";

const ENVIRONMENTS: &[TestEnvironment] = &[
    TestEnvironment::all_values("values"),
    TestEnvironment {
        hides_bubblewrap: true,
        ..TestEnvironment::all_values("values-no-bwrap")
    },
    TestEnvironment {
        is_other_user: true,
        ..TestEnvironment::all_values("user")
    },
    TestEnvironment {
        hides_bubblewrap: true,
        is_other_user: true,
        ..TestEnvironment::all_values("user-no-bwrap")
    },
    TestEnvironment {
        is_default: true,
        ..TestEnvironment::one_value("files", &["ulimit -n 256; exec "])
    },
    TestEnvironment::one_value("nice", &["exec nice -n 5 "]),
    TestEnvironment::one_value("umask", &["umask 002; exec "]),
    TestEnvironment::one_value("locale", &["export LANG=C LC_ALL=C; exec "]),
    TestEnvironment::one_value("zone", &["export TZ=Asia/Kathmandu; exec "]),
    TestEnvironment::one_value(
        "directories",
        &["export HOME=\"$ODD/home\" TMPDIR=\"$ODD/tmp\"; exec "],
    ),
];

/// A test program, and the package that it belongs to.
#[derive(Debug, PartialEq, Eq)]
struct Program {
    package: PathBuf,
    executable: PathBuf,
}

fn run(arguments: &[String]) -> Result<(), XtaskError> {
    let (only, packages) = read(arguments)?;
    let mut cargo = command::cargo();
    // Examples are built too: some tests run them.
    cargo.args(["test", "--no-run", "--message-format=json"]);
    if packages.is_empty() {
        cargo.args(["--workspace", FEATURES[0], FEATURES[1]]);
    } else {
        cargo.args(packages.iter().flat_map(|package| ["-p", package]));
    }
    let built = command::read(cargo)?;
    let programs: Vec<_> = built.lines().filter_map(program).collect();
    let odd = odd_directory()?;
    let (mut sum, mut lines, mut failed) = (Tally::default(), Vec::new(), Vec::new());
    let is_wanted = |environment: &&TestEnvironment| {
        if only.is_empty() {
            environment.is_default
        } else {
            only.contains(&environment.name)
        }
    };
    for environment in ENVIRONMENTS.iter().filter(is_wanted) {
        let name = environment.name;
        let mut tally = Tally::default();
        if let Some(obstacle) = environment.obstacle(&programs) {
            sum.skip(&format!("environments {name}: {obstacle}"));
            continue;
        }
        for program in &programs {
            let title = program.executable.file_name().unwrap_or_default();
            let title = format!(
                "==> {name}: {} {}",
                program.package.display(),
                title.display()
            );
            eprintln!("{}", bold(&title));
            let mut test = environment.command(&program.executable);
            test.current_dir(&program.package)
                .env("CARGO_MANIFEST_DIR", &program.package)
                // Otherwise insta runs cargo to find snapshots, and another user may not have it.
                .env("INSTA_WORKSPACE_ROOT", command::root())
                .env("ODD", &odd);
            if command::run_tests(test, &mut tally).is_err() {
                failed.push(title);
            }
        }
        lines.push(format!(
            "{name}: {} passed, {} failed, {} skipped",
            tally.passed,
            tally.failed,
            tally.skipped.len()
        ));
        sum.add(tally);
    }
    failed.iter().for_each(|title| eprintln!("failed {title}"));
    lines.iter().for_each(|line| println!("{line}"));
    println!("{sum}");
    if failed.is_empty() {
        Ok(())
    } else {
        Err(XtaskError::Shown)
    }
}

/// Parses the environments (default: all) and the packages to run.
fn read(arguments: &[String]) -> Result<(Vec<&str>, Vec<&str>), XtaskError> {
    let (mut only, mut packages) = (Vec::new(), Vec::new());
    let mut arguments = arguments.iter().map(String::as_str);
    while let Some(argument) = arguments.next() {
        match argument {
            "--only" => {
                let name = arguments.next().unwrap_or_default();
                let names: Vec<_> = ENVIRONMENTS.iter().map(|known| known.name).collect();
                if !names.contains(&name) {
                    let text = format!("`{name}` is no environment; use {}", names.join(", "));
                    return Err(XtaskError::Usage(text));
                }
                only.push(name);
            }
            option if option.starts_with('-') => {
                let text =
                    format!("`{option}` is not known; see `cargo xtask environments --help`");
                return Err(XtaskError::Usage(text));
            }
            package => packages.push(package),
        }
    }
    Ok((only, packages))
}

/// Parses a line of cargo about a built artifact; `None` if it is not a test program.
fn program(line: &str) -> Option<Program> {
    let value = |name: &str| {
        let (_, rest) = line.split_once(&format!("\"{name}\":\""))?;
        rest.split('"').next().map(PathBuf::from)
    };
    let executable = value("executable")?;
    let package = value("manifest_path")?.parent()?.to_owned();
    line.contains("\"test\":true},").then_some(Program {
        package,
        executable,
    })
}

/// Creates world-writable directories with odd names.
fn odd_directory() -> Result<PathBuf, XtaskError> {
    let odd = std::env::temp_dir().join(format!("windlass odd ünï {}", std::process::id()));
    let mut shell = Command::new("sh");
    let make =
        "mkdir -p \"$0/home\" \"$0/tmp\" && chmod 755 \"$0\" && chmod 777 \"$0/home\" \"$0/tmp\"";
    shell.args(["-c", make]).arg(&odd);
    command::run(shell)?;
    Ok(odd)
}

/// Returns whether a file can be hidden in a mount namespace.
fn can_hide_bubblewrap() -> bool {
    let mut unshare = Command::new("unshare");
    unshare.args(["--mount", "mount", "--bind", "/dev/null", "/dev/null"]);
    command::works(unshare)
}

/// Returns whether an unprivileged user can run the programs.
fn has_user(programs: &[Program]) -> bool {
    let reads = |path: &Path| {
        let mut setpriv = Command::new("setpriv");
        setpriv
            .args([
                "--reuid",
                UNPRIVILEGED,
                "--regid",
                UNPRIVILEGED,
                "--clear-groups",
            ])
            .args(["test", "-r"])
            .arg(path);
        command::works(setpriv)
    };
    let mut programs = programs.iter();
    programs.all(|program| reads(&program.executable) && reads(&program.package))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn test_programs_are_parsed_from_cargo_output() {
        let line = |test: bool| {
            format!(
                r#"{{"reason":"compiler-artifact","manifest_path":"/w/crates/store/Cargo.toml","profile":{{"opt_level":"0","test":{test}}},"executable":"/w/target/it-1"}}"#
            )
        };
        let found = Program {
            package: "/w/crates/store".into(),
            executable: "/w/target/it-1".into(),
        };
        assert_eq!(program(&line(true)), Some(found));
        assert_eq!(program(&line(false)), None);
        assert_eq!(program(r#"{"reason":"build-finished"}"#), None);
    }

    #[test]
    fn command_line_starts_with_its_environment_wrappers() {
        let find = |name: &str| ENVIRONMENTS.iter().find(|known| known.name == name);
        let command = |name: &str| {
            let command = find(name).unwrap().command(Path::new("/t"));
            let arguments = command.get_args().map(|it| it.to_str().unwrap());
            let program = command.get_program().to_str().unwrap();
            [program]
                .into_iter()
                .chain(arguments)
                .collect::<Vec<_>>()
                .join(" ")
        };
        assert_eq!(command("umask"), "sh -c umask 002; exec \"$@\" sh /t");
        let all = command("user-no-bwrap");
        assert!(all.starts_with("unshare --mount sh -c if bwrap="), "{all}");
        let end = "exec nice -n 5 setpriv --reuid 65534 --regid 65534 --clear-groups \"$@\" sh /t";
        assert!(all.ends_with(end), "{all}");
    }

    #[test]
    fn environments_and_packages_are_parsed_or_refused() {
        let words =
            |line: &str| -> Vec<String> { line.split_whitespace().map(str::to_owned).collect() };
        let given = words("--only umask a --only zone b");
        let (only, packages) = read(&given).unwrap();
        assert_eq!((only, packages), (vec!["umask", "zone"], vec!["a", "b"]));
        assert!(read(&words("--only moon")).is_err());
        assert!(read(&words("--quick")).is_err());
    }
}
