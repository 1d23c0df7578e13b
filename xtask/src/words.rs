//! `words`: phrases that the project's language avoids, in code, comments, strings and pages.

use crate::command;
use crate::error::XtaskError;
use crate::subcommand::{XtaskCommand, no_arguments};

pub(crate) const COMMAND: XtaskCommand = XtaskCommand {
    name: "words",
    summary: "phrases that code, comments, messages and pages must not contain",
    help: "\
Searches every tracked source file and page for phrases that are unclear to a new reader, and for doc comments of one or two
words, which only repeat a name. Prints file, line, phrase and what to write instead, and fails if there is any.

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
];

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
    let mut matches = 0;
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
    use super::{findings, is_short_doc_comment};

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
    fn doc_comments_of_two_words_are_found() {
        assert!(is_short_doc_comment("    /// The turn."));
        assert!(!is_short_doc_comment(
            "    /// Milliseconds; default 30,000."
        ));
        assert!(!is_short_doc_comment("    /// `None`."));
    }
}
