//! Names of servers' tools.

use windlass_core::digest::Digest128;

/// Maximum length of a tool name for model providers.
const MAX_NAME: usize = 64;
/// Maximum length of the server's part.
const MAX_SERVER: usize = 24;
/// Number of digest digits that distinguish truncated names.
const DIGITS: usize = 8;

/// Returns whether a name may belong to a tool of this server. Only the server knows whether the tool exists.
#[must_use]
pub fn may_be_tool_of(server: &str, name: &str) -> bool {
    let rest = name.strip_prefix(&prefix(server));
    rest.is_some_and(|rest| !rest.is_empty())
}

fn prefix(server: &str) -> String {
    format!("mcp__{}__", server_part(server))
}

/// Returns the name of a server's tool for the model.
pub(super) fn tool_name(server: &str, tool: &str) -> String {
    let prefix = prefix(server);
    let part: String = tool.chars().map(allowed).collect();
    format!("{prefix}{}", shorten(&part, tool, MAX_NAME - prefix.len()))
}

/// Returns the server's part of its tools' names. It contains no two consecutive underscores and none at its ends, so that the first two underscores
/// after it terminate it, whatever the tool's name is.
pub(super) fn server_part(server: &str) -> String {
    let mut part = String::new();
    for c in server.chars().map(allowed) {
        if c != '_' || !part.ends_with('_') {
            part.push(c);
        }
    }
    let part = part.trim_matches('_');
    match part {
        "" => "server".to_owned(),
        part => shorten(part, server, MAX_SERVER),
    }
}

/// Truncates a long name and appends a digest of the full name, so that it stays unique.
fn shorten(part: &str, whole: &str, max: usize) -> String {
    if part.len() <= max {
        return part.to_owned();
    }
    let digest = Digest128::hash(whole.as_bytes()).to_string();
    let prefix = part[..max - DIGITS - 1].trim_end_matches('_');
    format!("{prefix}_{}", &digest[..DIGITS])
}

fn allowed(c: char) -> char {
    match c {
        'a'..='z' | 'A'..='Z' | '0'..='9' | '-' => c,
        _ => '_',
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn names_contain_server_and_tool() {
        for (server, tool, name) in [
            ("files", "read_file", "mcp__files__read_file"),
            ("my files!", "read file", "mcp__my_files__read_file"),
            ("a__b", "c", "mcp__a_b__c"),
            ("_a_", "_b", "mcp__a___b"),
            ("…", "x", "mcp__server__x"),
        ] {
            assert_eq!(tool_name(server, tool), name);
        }
        assert!(!may_be_tool_of("files", "mcp__files__"));
        assert!(!may_be_tool_of("file", "mcp__files__x"));
    }

    #[test]
    fn long_names_stay_distinct() {
        let (one, two) = ("x".repeat(80) + "1", "x".repeat(80) + "2");
        assert_ne!(tool_name("s", &one), tool_name("s", &two));
        assert_ne!(server_part(&one), server_part(&two));
    }

    proptest! {
        #[test]
        fn every_name_is_valid_for_providers(server in ".{0,90}", tool in ".{1,90}") {
            let name = tool_name(&server, &tool);
            prop_assert!(name.len() <= MAX_NAME);
            prop_assert!(name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-".contains(&byte)));
            let rest = name.strip_prefix("mcp__").unwrap();
            let (part, _) = rest.split_once("__").unwrap();
            prop_assert_eq!(part, server_part(&server));
            prop_assert!(may_be_tool_of(&server, &name));
        }
    }
}
