//! The assets as browsers get them: small, and without the means by which text becomes script.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;
use std::path::{Path, PathBuf};

use windlass_console::Assets;

const MAX_SCRIPT_BYTES: usize = 120 * 1024;
const MAX_STYLE_BYTES: usize = 24 * 1024;
const MAX_LINES: usize = 300;

/// Returns the source files with their content.
fn sources() -> Vec<(PathBuf, String)> {
    fn collect(directory: &Path, files: &mut Vec<(PathBuf, String)>) {
        for entry in fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                collect(&path, files);
            } else {
                let text = fs::read_to_string(&path).unwrap();
                files.push((path, text));
            }
        }
    }
    let mut files = Vec::new();
    collect(
        &Path::new(env!("CARGO_MANIFEST_DIR")).join("assets"),
        &mut files,
    );
    files
}

fn total(extension: &str) -> usize {
    let files = Assets::embedded().iter();
    let files = files.filter(|(name, _)| name.ends_with(extension));
    files.map(|(_, content)| content.len()).sum()
}

#[test]
fn assets_are_within_their_budget() {
    let (script, style) = (total(".js"), total(".css"));
    assert!(
        script > 50_000 && script <= MAX_SCRIPT_BYTES,
        "{script} bytes of script"
    );
    assert!(
        style > 5_000 && style <= MAX_STYLE_BYTES,
        "{style} bytes of style"
    );
    for (path, text) in sources() {
        let lines = text.lines().count();
        assert!(lines < MAX_LINES, "{} has {lines} lines", path.display());
    }
}

#[test]
fn no_asset_turns_text_into_markup_or_script() {
    let forbidden = [
        "innerHTML",
        "outerHTML",
        "insertAdjacentHTML",
        "createContextualFragment",
        "parseFromString",
        "DOMParser",
        "srcdoc",
        "setHTML",
        "document.write",
        "eval(",
        "new Function",
        "javascript:",
        "cssText",
        "\"style\"",
        " style:",
        "{style:",
        "dangerously",
        "createPolicy",
        "<style",
        "<script",
        "@import",
        "url(",
    ];
    for (path, text) in sources() {
        for word in forbidden {
            assert!(!text.contains(word), "{} contains {word}", path.display());
        }
        // A timer with a text is a script.
        for call in ["setTimeout(\"", "setTimeout('", "setInterval(\""] {
            assert!(!text.contains(call), "{} contains {call}", path.display());
        }
    }
}

#[test]
fn no_asset_names_another_host() {
    for (path, text) in sources() {
        for scheme in [
            "http://",
            "https://",
            "ws://",
            "wss://",
            "import(\"//",
            "from \"//",
        ] {
            assert!(
                !text.contains(scheme),
                "{} contains {scheme}",
                path.display()
            );
        }
        let imports = text
            .lines()
            .filter(|line| line.starts_with("import ") || line.contains("import(\""));
        for line in imports.filter(|line| {
            !line.contains("@typedef")
                && !line.contains("import(\"../")
                && !line.contains("import(\"./")
        }) {
            assert!(
                line.contains("\"./") || line.contains("\"../"),
                "{}: {line}",
                path.display()
            );
        }
    }
}

/// The build removes comments and some line breaks line by line.
#[test]
fn sources_are_safe_to_strip_of_comments() {
    for (path, text) in sources() {
        if path.extension().is_none_or(|extension| extension != "js") {
            continue;
        }
        let mut comment = false;
        for line in text.lines() {
            let place = format!("{}: {line}", path.display());
            comment |= line.trim_start().starts_with("/**");
            if !comment {
                assert_eq!(
                    line.matches("/**").count(),
                    line.matches("/** @").count(),
                    "{place}"
                );
                // A line break after it may be removed.
                let is_comment = line.trim_start().starts_with("//");
                assert!(is_comment || !line.contains(" // "), "{place}");
                // A template of several lines would lose its indentation; a pattern may contain one of its marks.
                let ticks = line.matches('`').count();
                assert!(
                    ticks % 2 == 0 || line.contains("const FENCE") || line.contains("const INLINE"),
                    "{place}"
                );
            }
            comment &= !line.contains("*/");
        }
    }
}
