//! `words`: phrases that the project's language avoids, in code, comments, strings and pages.

use std::collections::BTreeMap;

use crate::command;
use crate::error::XtaskError;
use crate::lines::{is_product, without_tests};
use crate::subcommand::{XtaskCommand, no_arguments};

pub(crate) const COMMAND: XtaskCommand = XtaskCommand {
    name: "words",
    summary: "phrases that code, comments, messages and pages must not contain",
    help: "\
Searches every tracked source file and page for phrases that are unclear to a new reader, for doc comments of one or two words,
which only repeat a name, and for names that more than two types of the product have. Prints file, line, phrase and what to write
instead, and fails if there is any.

Usage: cargo xtask words

Examples:
  cargo xtask words
  cargo xtask words | cut -d: -f1 | sort | uniq -c    # matches per file
",
    run,
};

/// A group of phrases and what to write instead. A phrase is compared word by word and without regard to case.
struct Denied {
    phrases: &'static [&'static str],
    write: &'static str,
}

const DENIED: &[Denied] = &[
    Denied {
        phrases: &["somebody", "anybody", "nobody", "whoever"],
        write: "name the role: the client, the operator, the user, another process",
    },
    Denied {
        phrases: &["told", "is said", "says so"],
        write: "reported, returned, logged, specified",
    },
    Denied {
        phrases: &["kept", "keeping"],
        write: "stored, retained, cached",
    },
    Denied {
        phrases: &["stands", "standing"],
        write: "is, status",
    },
    Denied {
        phrases: &[
            "carry out",
            "carries out",
            "carried out",
            "carries a turn",
            "carry a turn",
        ],
        write: "run, execute",
    },
    Denied {
        phrases: &["goes on", "go on", "went on", "going on"],
        write: "continues, resumes",
    },
    Denied {
        phrases: &["taken up", "take up", "takes up", "took up"],
        write: "resumed, claimed",
    },
    Denied {
        phrases: &[
            "of others",
            "agent of others",
            "foreign agent",
            "foreign agents",
        ],
        write: "external, third-party",
    },
    Denied {
        phrases: &["laid to rest", "lay to rest", "let go of", "lets go of"],
        write: "shut down, drained, released",
    },
    Denied {
        phrases: &["by itself", "of its own accord"],
        write: "automatically",
    },
];

/// Phrases that contain a denied word and are established terms, as (phrase, reason).
const ALLOWED: &[(&str, &str)] = &[
    ("user nobody", "the Unix account"),
    ("nobody nogroup", "the Unix account"),
    ("kept messages", "a wire field"),
    ("files not kept", "a wire error code"),
    (
        "rename kept",
        "a name in stored checkpoint records and exports",
    ),
    ("rename not kept", "a name in stored checkpoint records"),
    ("rename told", "a stored field of fleet workers"),
    ("stopped told", "a stored event"),
    ("work task kept", "a stored row kind"),
    ("work automation kept", "a stored row kind"),
    ("work fleet kept", "a stored row kind"),
    ("table kept", "a table of the SQLite schema"),
    ("from kept", "a table of the SQLite schema"),
    ("into kept", "a table of the SQLite schema"),
    ("forks kept", "tables of the SQLite schema"),
    ("account nobody", "the Unix account"),
];

/// Names that every reader knows from elsewhere, so that more than two types may have them.
const GENERIC: &[&str] = &[
    "Args",
    "Config",
    "Entry",
    "Error",
    "Kind",
    "Options",
    "Request",
    "Response",
    "Result",
    "Row",
    "State",
    "Subcommand",
];
/// How many types of the product may share a name that is not generic.
const MAX_SAME_NAME: usize = 2;

/// Recorded data, and the files that define the rules.
const SKIPPED: &[&str] = &[
    "/fixtures/",
    "/cassettes/",
    "/corpus/",
    "xtask/src/words.rs",
];

fn run(arguments: &[String]) -> Result<(), XtaskError> {
    no_arguments(COMMAND.name, arguments)?;
    check()
}

/// Prints each match and fails if there is one.
pub(crate) fn check() -> Result<(), XtaskError> {
    let mut git = std::process::Command::new("git");
    git.current_dir(command::root()).args([
        "ls-files", "*.rs", "*.md", "*.toml", "*.sql", "*.js", "*.ts", "*.py",
    ]);
    let (mut matches, mut types) = (0, BTreeMap::<String, Vec<String>>::new());
    for path in command::read(git)?.lines() {
        if SKIPPED.iter().any(|part| path.contains(part)) {
            continue;
        }
        let text = std::fs::read_to_string(command::root().join(path));
        let text = text.map_err(|source| XtaskError::Io {
            doing: format!("read {path}"),
            source,
        })?;
        for (number, line) in text.lines().enumerate() {
            for (found, write) in findings(line) {
                println!("{path}:{}: \"{found}\": {write}", number + 1);
                matches += 1;
            }
        }
        if is_product(path) && !is_of_a_provider(path) {
            for (number, name) in type_names(&text) {
                let place = format!("{path}:{number}");
                types.entry(name).or_default().push(place);
            }
        }
    }
    for (name, places) in types {
        if places.len() > MAX_SAME_NAME && !GENERIC.contains(&&*name) {
            let others = places.len() - 1;
            let first = &places[0];
            println!(
                "{first}: `{name}`: {others} other types have this name: {}",
                places[1..].join(", ")
            );
            matches += 1;
        }
    }
    if matches > 0 {
        println!("{matches} phrases to replace");
        return Err(XtaskError::Shown);
    }
    println!("no denied phrases");
    Ok(())
}

/// Returns the denied phrases of a line, each with its replacement.
fn findings(line: &str) -> Vec<(String, &'static str)> {
    let words: Vec<String> = line
        .split(|c: char| !c.is_alphanumeric() && c != '\'')
        .filter(|word| !word.is_empty())
        .map(str::to_lowercase)
        .collect();
    let spaced = format!(" {} ", words.join(" "));
    let spaced = ALLOWED.iter().fold(spaced, |spaced, (phrase, _)| {
        spaced.replace(&format!(" {phrase} "), " ")
    });
    let denied = DENIED.iter().flat_map(|rule| {
        let phrases = rule.phrases.iter().map(|phrase| (*phrase, rule.write));
        phrases.filter(|(phrase, _)| spaced.contains(&format!(" {phrase} ")))
    });
    let mut found: Vec<_> = denied
        .map(|(phrase, write)| (phrase.to_owned(), write))
        .collect();
    if is_short_doc_comment(line) {
        let write = "delete the comment, or add a unit, range, default, error or reason";
        found.push((line.trim().to_owned(), write));
    }
    found
}

/// The messages of a provider's API have the provider's names.
fn is_of_a_provider(path: &str) -> bool {
    path.starts_with("crates/models/")
}

/// Returns the types that a file defines outside of its tests, with their line numbers. An associated type is no definition.
fn type_names(text: &str) -> Vec<(usize, String)> {
    let product = without_tests(text);
    let definitions = product.into_iter().filter_map(|(number, line)| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let is_indented = line.starts_with(char::is_whitespace);
        let keyword = words.iter().position(|word| {
            ["struct", "enum", "trait"].contains(word) || (!is_indented && *word == "type")
        })?;
        let is_definition = words[..keyword].iter().all(|word| word.starts_with("pub"));
        let name = words.get(keyword + 1).filter(|_| is_definition)?;
        let name: String = name.chars().take_while(|c| c.is_alphanumeric()).collect();
        name.starts_with(char::is_uppercase)
            .then_some((number, name))
    });
    definitions.collect()
}

/// A doc comment that is a single sentence of at most two words.
fn is_short_doc_comment(line: &str) -> bool {
    let Some(text) = line.trim().strip_prefix("/// ") else {
        return false;
    };
    let is_sentence = text.starts_with(char::is_uppercase) && text.ends_with('.');
    is_sentence && !text.contains('`') && text.split_whitespace().count() <= 2
}

#[cfg(test)]
mod tests {
    use super::{findings, is_short_doc_comment, type_names};

    fn phrases(line: &str) -> Vec<String> {
        findings(line)
            .into_iter()
            .map(|(phrase, _)| phrase)
            .collect()
    }

    #[test]
    fn denied_phrases_are_found_as_whole_words() {
        assert_eq!(
            phrases("// The turn goes on; nobody waits."),
            ["nobody", "goes on"]
        );
        assert_eq!(phrases("let retold = untold;"), [""; 0]);
        assert_eq!(phrases("runs as the user nobody"), [""; 0]);
    }

    #[test]
    fn associated_types_and_tests_define_no_type_names() {
        let text = "\
pub(crate) struct Shared<T>(T);
type Reply = u8;
impl Iterator for Shared<u8> {
    type Item = u8;
}
#[cfg(test)]
mod tests {
    struct Fake;
}
// an enum of ours
";
        let names = type_names(text);
        assert_eq!(names, [(1, "Shared".to_owned()), (2, "Reply".to_owned())]);
    }

    #[test]
    fn doc_comments_of_two_words_are_found() {
        assert!(is_short_doc_comment("    /// The turn."));
        assert!(!is_short_doc_comment(
            "    /// Milliseconds; default 30,000."
        ));
        assert!(!is_short_doc_comment("    /// `None`."));
    }
}
