//! `environments`: the tests under hostile values of the caller's environment.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::command;
use crate::failure::Failure;
use crate::tally::Tally;
use crate::terminal::bold;
use crate::verify::FEATURES;
use crate::word::Word;

pub(crate) const WORD: Word = Word {
    name: "environments",
    summary: "all tests under other priorities, umasks, locales, time zones, homes, limits and users",
    help: "\
Builds the tests of the workspace once and runs them, without doc tests, in each of these environments: `nice` (nice -n 5), `umask`
(002), `locale` (C), `zone` (Asia/Kathmandu), `directories` (HOME and TMPDIR with a space and letters beyond ASCII), `files` (512 open files: a search holds one for each of 256 levels),
and `user` (a user without rights; only as root, with setpriv, and where that user can read the workspace). With names of packages
only their tests run. The last line on stdout is the sum of the results.

Usage: cargo xtask environments [--only NAME]... [PACKAGE]...

Examples:
  cargo xtask environments
  cargo xtask environments --only umask --only zone windlass-store windlass-work
",
    run,
};

/// The user and the group of `user`.
const NOBODY: &str = "65534";

/// Each environment with what a shell does before it starts a test program. `$ODD` is a directory for everybody.
const ENVIRONMENTS: &[(&str, &str)] = &[
    ("nice", "exec nice -n 5 \"$@\""),
    ("umask", "umask 002; exec \"$@\""),
    ("locale", "LANG=C LC_ALL=C exec \"$@\""),
    ("zone", "TZ=Asia/Kathmandu exec \"$@\""),
    (
        "directories",
        "HOME=\"$ODD/home\" TMPDIR=\"$ODD/tmp\" exec \"$@\"",
    ),
    ("files", "ulimit -n 512; exec \"$@\""),
    (
        "user",
        "HOME=\"$ODD/home\" TMPDIR=\"$ODD/tmp\" exec setpriv --reuid 65534 --regid 65534 --clear-groups \"$@\"",
    ),
];

/// A test program, and the package that it belongs to.
#[derive(Debug, PartialEq, Eq)]
struct Program {
    package: PathBuf,
    executable: PathBuf,
}

fn run(arguments: &[String]) -> Result<(), Failure> {
    let (only, packages) = read(arguments)?;
    let mut cargo = command::cargo();
    cargo.args(["test", "--no-run", "--message-format=json", "--tests"]);
    match packages.is_empty() {
        true => cargo.args(["--workspace", FEATURES[0], FEATURES[1]]),
        false => cargo.args(packages.iter().flat_map(|package| ["-p", package])),
    };
    let built = command::read(cargo)?;
    let programs: Vec<_> = built.lines().filter_map(program).collect();
    let odd = odd_directory()?;
    let mut tally = Tally::default();
    let mut failed = Vec::new();
    for (name, setup) in ENVIRONMENTS {
        if !only.is_empty() && !only.contains(name) {
            continue;
        }
        if *name == "user" && !has_user(&programs) {
            tally.skip("environments user: not root, no setpriv, or the workspace is not readable for others");
            continue;
        }
        for Program {
            package,
            executable,
        } in &programs
        {
            let title = executable.file_name().unwrap_or_default();
            let title = format!("==> {name}: {} {}", package.display(), title.display());
            eprintln!("{}", bold(&title));
            let mut shell = Command::new("sh");
            shell
                .args(["-c", setup, "sh"])
                .arg(executable)
                .current_dir(package)
                .env("CARGO_MANIFEST_DIR", package)
                .env("ODD", &odd);
            if command::run_tests(shell, &mut tally).is_err() {
                failed.push(title);
            }
        }
    }
    failed.iter().for_each(|title| eprintln!("failed {title}"));
    println!("{tally}");
    match failed.is_empty() {
        true => Ok(()),
        false => Err(Failure::Shown),
    }
}

/// Reads the environments to run, all where none is named, and the packages.
fn read(arguments: &[String]) -> Result<(Vec<&str>, Vec<&str>), Failure> {
    let (mut only, mut packages) = (Vec::new(), Vec::new());
    let mut arguments = arguments.iter().map(String::as_str);
    while let Some(argument) = arguments.next() {
        match argument {
            "--only" => {
                let name = arguments.next().unwrap_or_default();
                if !ENVIRONMENTS.iter().any(|(known, _)| *known == name) {
                    let names: Vec<_> = ENVIRONMENTS.iter().map(|(known, _)| *known).collect();
                    let text = format!("`{name}` is no environment; use {}", names.join(", "));
                    return Err(Failure::Usage(text));
                }
                only.push(name);
            }
            option if option.starts_with('-') => {
                let text =
                    format!("`{option}` is not known; see `cargo xtask environments --help`");
                return Err(Failure::Usage(text));
            }
            package => packages.push(package),
        }
    }
    Ok((only, packages))
}

/// Reads a line of cargo about something that it has built; `None` where that is no test program.
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

/// Makes directories with odd names that every user can write.
fn odd_directory() -> Result<PathBuf, Failure> {
    let odd = std::env::temp_dir().join(format!("windlass odd ünï {}", std::process::id()));
    let mut shell = Command::new("sh");
    let make =
        "mkdir -p \"$0/home\" \"$0/tmp\" && chmod 755 \"$0\" && chmod 777 \"$0/home\" \"$0/tmp\"";
    shell.args(["-c", make]).arg(&odd);
    command::run(shell)?;
    Ok(odd)
}

/// Tells whether a user without rights can run the programs.
fn has_user(programs: &[Program]) -> bool {
    let reads = |path: &Path| {
        let mut setpriv = Command::new("setpriv");
        setpriv
            .args(["--reuid", NOBODY, "--regid", NOBODY, "--clear-groups"])
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
    fn test_programs_are_found_among_the_lines_of_cargo() {
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
    fn environments_and_packages_are_read_or_refused() {
        let words =
            |line: &str| -> Vec<String> { line.split_whitespace().map(str::to_owned).collect() };
        let given = words("--only umask a --only zone b");
        let (only, packages) = read(&given).unwrap();
        assert_eq!((only, packages), (vec!["umask", "zone"], vec!["a", "b"]));
        assert!(read(&words("--only moon")).is_err());
        assert!(read(&words("--quick")).is_err());
    }
}
