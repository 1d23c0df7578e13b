//! Subcommands, their help, and the dispatch from arguments.

use crate::error::XtaskError;

/// A subcommand of `cargo xtask`.
pub(crate) struct XtaskCommand {
    /// Name on the command line.
    pub(crate) name: &'static str,
    /// One line of the overview.
    pub(crate) summary: &'static str,
    /// Text of `--help`, including examples.
    pub(crate) help: &'static str,
    /// Runs the subcommand with the arguments after its name.
    pub(crate) run: fn(&[String]) -> Result<(), XtaskError>,
}

/// Runs the subcommand in the arguments, or prints the requested help.
pub(crate) fn dispatch(
    subcommands: &[XtaskCommand],
    arguments: &[String],
) -> Result<(), XtaskError> {
    let Some((first, rest)) = arguments.split_first() else {
        return Err(XtaskError::Usage(format!(
            "a subcommand is missing\n\n{}",
            overview(subcommands)
        )));
    };
    match first.as_str() {
        "-h" | "--help" => {
            println!("{}", overview(subcommands));
            Ok(())
        }
        "help" => {
            match rest {
                [] => println!("{}", overview(subcommands)),
                [name, ..] => println!("{}", find(subcommands, name)?.help.trim_end()),
            }
            Ok(())
        }
        name => {
            let subcommand = find(subcommands, name)?;
            if rest.iter().any(|a| a == "-h" || a == "--help") {
                println!("{}", subcommand.help.trim_end());
                return Ok(());
            }
            (subcommand.run)(rest)
        }
    }
}

/// Refuses arguments of a subcommand that takes none.
pub(crate) fn no_arguments(name: &str, arguments: &[String]) -> Result<(), XtaskError> {
    match arguments.first() {
        None => Ok(()),
        Some(argument) => Err(XtaskError::Usage(format!(
            "`{name}` takes no argument, but got `{argument}`; see `cargo xtask {name} --help`"
        ))),
    }
}

fn find<'a>(subcommands: &'a [XtaskCommand], name: &str) -> Result<&'a XtaskCommand, XtaskError> {
    subcommands
        .iter()
        .find(|one| one.name == name)
        .ok_or_else(|| {
            let known: Vec<_> = subcommands.iter().map(|one| one.name).collect();
            XtaskError::Usage(format!(
                "no subcommand `{name}`; there are {} (see `cargo xtask --help`)",
                known.join(", ")
            ))
        })
}

fn overview(subcommands: &[XtaskCommand]) -> String {
    let mut text = String::from(
        "Development tasks of Windlass.\n\nUsage: cargo xtask <subcommand> [arguments]\n\n",
    );
    for subcommand in subcommands {
        text.push_str(&format!(
            "  {:<12} {}\n",
            subcommand.name, subcommand.summary
        ));
    }
    text.push_str(
        "\nExamples:\n  cargo xtask test           what CI runs\n  cargo xtask slim --help    help of one subcommand\n\n\
         Exit status: 0 success, 1 a check failed, 2 invalid command line.",
    );
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    const COMMANDS: &[XtaskCommand] = &[XtaskCommand {
        name: "lift",
        summary: "lifts",
        help: "help of lift",
        run: |arguments| no_arguments("lift", arguments),
    }];

    fn dispatch_line(line: &str) -> Result<(), XtaskError> {
        let arguments: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        dispatch(COMMANDS, &arguments)
    }

    #[test]
    fn known_subcommands_and_help_succeed() {
        for line in ["lift", "lift --help", "--help", "-h", "help", "help lift"] {
            assert!(dispatch_line(line).is_ok(), "{line}");
        }
    }

    #[test]
    fn invalid_command_line_names_the_error() {
        for (line, part) in [
            ("", "a subcommand is missing"),
            ("lower", "no subcommand `lower`; there are lift"),
            ("help lower", "no subcommand `lower`"),
            ("lift now", "takes no argument, but got `now`"),
        ] {
            match dispatch_line(line) {
                Err(XtaskError::Usage(message)) => assert!(message.contains(part), "{message}"),
                other => panic!("`{line}` gave {other:?}"),
            }
        }
    }
}
