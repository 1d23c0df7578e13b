//! Ignore files of a repository.

use std::fs;

use super::bytes::Bytes;
use super::patterns::path_pattern;
use super::scratch::{DIRECTORIES, FILES, IGNORE_FILES, Scratch, check_files};

/// A little more than is read of one.
const MAX_BYTES: usize = 1_100_000;

thread_local! {
    static SCRATCH: Scratch = Scratch::new();
}

/// Whatever a repository asks to leave alone, `glob` and `grep` answer, and agree on what is left; with `include_ignored` they find
/// everything.
pub fn ignore_files(data: &[u8]) {
    let mut bytes = Bytes::new(data);
    SCRATCH.with(|scratch| {
        for directory in DIRECTORIES {
            for name in IGNORE_FILES {
                let path = scratch.path(directory, name);
                let done = match bytes.below(3) {
                    // The first always has something to say.
                    1 if !directory.is_empty() => match fs::remove_file(&path) {
                        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error),
                        _ => Ok(()),
                    },
                    _ => fs::write(&path, rules(&mut bytes)),
                };
                assert!(
                    done.is_ok(),
                    "{} cannot be changed: {done:?}",
                    path.display()
                );
            }
        }
        let (Ok(all), Ok(left)) = (scratch.glob("**", true), scratch.glob("**", false)) else {
            panic!("a pattern that is in order is refused")
        };
        check_files(&all);
        for file in FILES {
            assert!(all.iter().any(|found| found == file), "{file} is not found");
        }
        for file in &left {
            assert!(all.contains(file), "{file} is found only where rules count");
        }
        let Ok(searched) = scratch.grep("**", false) else {
            panic!("a search that is in order is refused")
        };
        let texts: Vec<_> = left
            .iter()
            .filter(|file| FILES.contains(&file.as_str()))
            .collect();
        let searched = searched
            .iter()
            .filter(|file| FILES.contains(&file.as_str()));
        assert_eq!(
            texts,
            searched.collect::<Vec<_>>(),
            "the rules are read in two ways"
        );
    });
}

fn rules(bytes: &mut Bytes<'_>) -> Vec<u8> {
    let mut rules = Vec::new();
    for _ in 0..bytes.below(6) {
        let begin = rules.len();
        rules.extend(
            bytes
                .word(&["", "", "", "!", "/", "#", "\\#", "\\!", "  ", "\u{feff}"])
                .as_bytes(),
        );
        match bytes.below(8) {
            0..=4 => rules.extend(path_pattern(bytes).as_bytes()),
            5 => rules.extend(bytes.take(12)),
            6 => rules.extend(b"\xff\xfe{\xc3[\x80-\xff]"),
            _ => rules.extend(
                bytes
                    .word(&["*", "**", "src", "*.rs", "\0", "a\\ "])
                    .as_bytes(),
            ),
        }
        rules.extend(
            bytes
                .word(&["", "/", "/**", " ", "\\ ", "\\", "\t"])
                .as_bytes(),
        );
        rules.extend(bytes.word(&["\n", "\n", "\n", "\r\n", "\r", ""]).as_bytes());
        if bytes.one_in(48) {
            // Thousands of the same, or one line without an end.
            let rule = rules.split_off(begin);
            let room = (MAX_BYTES - rules.len().min(MAX_BYTES)) / rule.len().max(1);
            rules.extend(rule.repeat(bytes.times(room)));
        }
    }
    rules
}
