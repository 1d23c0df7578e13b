//! Files and directories that a prompt names as `@path`. They are sent with the prompt; the daemon reads the files, subject to the rules of the
//! environment.

use std::fs;
use std::io::ErrorKind;
use std::path::Path;

use anyhow::{Context, Result, bail, ensure};
use windlass_core::bounds::one_line;
use windlass_protocol::InputPart;

/// Maximum size of an image and of a text file that the daemon accepts, in bytes.
pub(crate) const MAX_IMAGE: u64 = 5 * 1024 * 1024;
pub(crate) const MAX_FILE: u64 = 1024 * 1024;
/// Maximum number of entries of a directory that are listed.
const MAX_ENTRIES: usize = 500;
const IMAGES: [&str; 5] = ["png", "jpg", "jpeg", "gif", "webp"];
/// Characters that end a sentence rather than a path.
const PUNCTUATION: [char; 8] = ['.', ',', ';', ':', '?', '!', ')', '\''];

/// Returns the files and directories that a prompt names, each once. A path is relative to `cwd`; `@"a b"` is a path with a space. A word that names
/// nothing remains text.
pub(crate) fn mentioned(prompt: &str, cwd: &Path) -> Result<Vec<InputPart>> {
    let mut paths: Vec<String> = Vec::new();
    for word in words(prompt) {
        let mut word = word;
        while !exists(cwd, word)
            && let Some(shorter) = word.strip_suffix(PUNCTUATION)
        {
            word = shorter;
        }
        if exists(cwd, word) && !paths.iter().any(|known| known == word) {
            paths.push(word.to_owned());
        }
    }
    paths.iter().map(|path| part(cwd, path)).collect()
}

/// Returns the words after an `@` that begins a word.
fn words(prompt: &str) -> impl Iterator<Item = &str> {
    let marks = prompt.match_indices('@').map(|(at, _)| at);
    let begins = |at: &usize| {
        let before = prompt[..*at].chars().next_back();
        before.is_none_or(char::is_whitespace)
    };
    marks.filter(begins).map(|at| {
        let rest = &prompt[at + 1..];
        let quoted = rest.strip_prefix('"').and_then(|rest| rest.split_once('"'));
        match quoted {
            Some((path, _)) => path,
            None => rest.split(char::is_whitespace).next().unwrap_or_default(),
        }
    })
}

fn exists(cwd: &Path, path: &str) -> bool {
    let found = |error: &std::io::Error| error.kind() == ErrorKind::PermissionDenied;
    !path.is_empty()
        && !path.contains('\0')
        && cwd
            .join(path)
            .metadata()
            .as_ref()
            .map_or_else(found, |_| true)
}

/// Returns the part of the input for an existing path.
pub(crate) fn part(cwd: &Path, path: &str) -> Result<InputPart> {
    let shown = one_line(path);
    let real = cwd.join(path).canonicalize();
    let real = real.with_context(|| format!("{shown} cannot be opened"))?;
    let root = cwd.canonicalize()?;
    ensure!(
        real.starts_with(&root),
        "{shown} is outside of {}, so the agent cannot read it; copy it there, or send it with --file",
        one_line(&root.display().to_string())
    );
    let metadata = real.metadata()?;
    if metadata.is_dir() {
        return listing(&real, path);
    }
    ensure!(metadata.is_file(), "{shown} is not a regular file");
    let extension = real.extension().unwrap_or_default().to_string_lossy();
    let is_image = IMAGES.contains(&&*extension.to_lowercase());
    let max = if is_image { MAX_IMAGE } else { MAX_FILE };
    let megabyte = 1024 * 1024;
    if metadata.len() > max {
        bail!(
            "{shown} has {} MiB, and at most {} MiB are sent; name it without `@`, and the agent reads the parts that it needs",
            metadata.len().div_ceil(megabyte),
            max / megabyte
        );
    }
    let path = Some(path.to_owned());
    Ok(if is_image {
        InputPart::Image {
            data: None,
            path,
            media_type: None,
        }
    } else {
        InputPart::File {
            text: None,
            path,
            name: None,
        }
    })
}

/// Lists a directory: its entries by name, directories with a slash.
fn listing(real: &Path, path: &str) -> Result<InputPart> {
    let shown = one_line(path);
    let entries = fs::read_dir(real).with_context(|| format!("{shown} cannot be listed"))?;
    let mut names: Vec<String> = Vec::new();
    for entry in entries {
        let entry = entry?;
        let name = entry.file_name();
        let slash = if entry.file_type()?.is_dir() { "/" } else { "" };
        names.push(format!("{}{slash}", one_line(&name.to_string_lossy())));
    }
    names.sort();
    let more = names.len().saturating_sub(MAX_ENTRIES);
    names.truncate(MAX_ENTRIES);
    if more > 0 {
        names.push(format!("and {more} more"));
    }
    Ok(InputPart::Text {
        text: format!(
            "<directory name=\"{shown}\">\n{}\n</directory>",
            names.join("\n")
        ),
    })
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use serde_json::{Value, json};

    use super::*;

    fn directory() -> tempfile::TempDir {
        let directory = tempfile::tempdir().unwrap();
        let here = directory.path().join("here");
        fs::create_dir_all(here.join("src")).unwrap();
        for name in ["main.rs", "a b.txt", "picture.PNG", "src/lib.rs"] {
            fs::write(here.join(name), "x").unwrap();
        }
        fs::write(directory.path().join("secret"), "x").unwrap();
        directory
    }

    #[test]
    fn existing_paths_become_parts_once() {
        let directory = directory();
        let here = directory.path().join("here");
        let prompt =
            "see @main.rs, (not @x) mail a@main.rs, @\"a b.txt\" and @src: @picture.PNG? @main.rs";
        let parts = mentioned(prompt, &here).unwrap();
        let expected = json!([
            { "type": "file", "path": "main.rs" },
            { "type": "file", "path": "a b.txt" },
            { "type": "text", "text": "<directory name=\"src\">\nlib.rs\n</directory>" },
            { "type": "image", "path": "picture.PNG" },
        ]);
        assert_eq!(json!(parts), expected);
        let none: Vec<Value> = Vec::new();
        assert_eq!(
            json!(mentioned("@ @@ @missing @\"", &here).unwrap()),
            json!(none)
        );
    }

    #[test]
    fn paths_outside_and_oversized_files_are_refused() {
        let directory = directory();
        let here = directory.path().join("here");
        symlink("../secret", here.join("link")).unwrap();
        for path in ["../secret", "link", "/etc/passwd", ".."] {
            let error = mentioned(&format!("read @{path}"), &here).unwrap_err();
            assert!(error.to_string().contains("is outside of"), "{error}");
        }
        let large = fs::File::create(here.join("large")).unwrap();
        large.set_len(1 << 30).unwrap();
        let error = mentioned("read @large", &here).unwrap_err().to_string();
        assert!(
            error.starts_with("large has 1024 MiB, and at most 1 MiB"),
            "{error}"
        );
        let status = std::process::Command::new("mkfifo")
            .arg(here.join("pipe"))
            .status();
        assert!(status.unwrap().success());
        let error = mentioned("read @pipe", &here).unwrap_err().to_string();
        assert_eq!(error, "pipe is not a regular file");
    }
}
