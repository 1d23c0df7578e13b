//! A word of the command line, its help, and the way from arguments to a word.

use crate::failure::Failure;

/// A subcommand of `cargo xtask`.
pub(crate) struct Word {
    /// What is typed.
    pub(crate) name: &'static str,
    /// One line for the overview.
    pub(crate) summary: &'static str,
    /// The page that `--help` shows, examples included.
    pub(crate) help: &'static str,
    /// Does the chore with the arguments after the word.
    pub(crate) run: fn(&[String]) -> Result<(), Failure>,
}

/// Runs the word that the arguments name, or shows the help they ask for.
pub(crate) fn dispatch(words: &[Word], arguments: &[String]) -> Result<(), Failure> {
    let Some((first, rest)) = arguments.split_first() else {
        return Err(Failure::Usage(format!(
            "say what to do\n\n{}",
            overview(words)
        )));
    };
    match first.as_str() {
        "-h" | "--help" => {
            println!("{}", overview(words));
            Ok(())
        }
        "help" => {
            match rest {
                [] => println!("{}", overview(words)),
                [name, ..] => println!("{}", find(words, name)?.help.trim_end()),
            }
            Ok(())
        }
        name => {
            let word = find(words, name)?;
            if rest.iter().any(|a| a == "-h" || a == "--help") {
                println!("{}", word.help.trim_end());
                return Ok(());
            }
            (word.run)(rest)
        }
    }
}

/// Refuses arguments on behalf of a word that takes none.
pub(crate) fn no_arguments(name: &str, arguments: &[String]) -> Result<(), Failure> {
    match arguments.first() {
        None => Ok(()),
        Some(argument) => Err(Failure::Usage(format!(
            "`{name}` takes no argument, but got `{argument}`; see `cargo xtask {name} --help`"
        ))),
    }
}

fn find<'w>(words: &'w [Word], name: &str) -> Result<&'w Word, Failure> {
    words.iter().find(|word| word.name == name).ok_or_else(|| {
        let known: Vec<_> = words.iter().map(|word| word.name).collect();
        Failure::Usage(format!(
            "no word `{name}`; the words are {} (see `cargo xtask --help`)",
            known.join(", ")
        ))
    })
}

fn overview(words: &[Word]) -> String {
    let mut text =
        String::from("The chores of Windlass.\n\nUsage: cargo xtask <word> [arguments]\n\n");
    for word in words {
        text.push_str(&format!("  {:<12} {}\n", word.name, word.summary));
    }
    text.push_str(
        "\nExamples:\n  cargo xtask test           what CI runs\n  cargo xtask slim --help    what one word does\n\n\
         Exit status: 0 all well, 1 a check failed, 2 the command line was wrong.",
    );
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    const WORDS: &[Word] = &[Word {
        name: "lift",
        summary: "lifts",
        help: "help of lift",
        run: |arguments| no_arguments("lift", arguments),
    }];

    fn dispatch_line(line: &str) -> Result<(), Failure> {
        let arguments: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        dispatch(WORDS, &arguments)
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
            ("", "say what to do"),
            ("lower", "no word `lower`; the words are lift"),
            ("help lower", "no word `lower`"),
            ("lift now", "takes no argument, but got `now`"),
        ] {
            match dispatch_line(line) {
                Err(Failure::Usage(message)) => assert!(message.contains(part), "{message}"),
                other => panic!("`{line}` gave {other:?}"),
            }
        }
    }
}
