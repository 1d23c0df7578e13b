//! Embeds every file below `assets/`, so that adding a file is the only step.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::{env, fs, io};

fn main() -> io::Result<()> {
    println!("cargo::rerun-if-changed=assets");
    let root = directory("CARGO_MANIFEST_DIR")?.join("assets");
    let mut files = Vec::new();
    collect(&root, &mut files)?;
    files.sort();
    let output = directory("OUT_DIR")?.join("served");
    let mut digest = blake3::Hasher::new();
    let mut entries = String::new();
    for file in &files {
        let name = file.strip_prefix(&root).map_err(io::Error::other)?;
        let name = name
            .to_str()
            .ok_or_else(|| io::Error::other("a name of an asset is not UTF-8"))?;
        let content = served(name, fs::read(file)?)?;
        // With the lengths, no two sets of files have the same input.
        digest.update(&(name.len() as u64).to_le_bytes());
        digest.update(name.as_bytes());
        digest.update(&(content.len() as u64).to_le_bytes());
        digest.update(&content);
        let copy = output.join(name);
        fs::create_dir_all(copy.parent().unwrap_or(&output))?;
        fs::write(&copy, content)?;
        writeln!(entries, "    ({name:?}, include_bytes!({copy:?})),").map_err(io::Error::other)?;
    }
    // Half of the digest identifies a build as well, and keeps addresses short.
    let digest = &digest.finalize().to_hex()[..32];
    let source = format!(
        "pub(crate) const DIGEST: &str = {digest:?};\npub(crate) const FILES: &[(&str, &[u8])] = &[\n{entries}];\n"
    );
    fs::write(directory("OUT_DIR")?.join("embedded.rs"), source)
}

/// Returns the bytes that a browser gets. The types of the modules are comments, a fifth of their size that no browser reads.
fn served(name: &str, content: Vec<u8>) -> io::Result<Vec<u8>> {
    if !name.ends_with(".js") {
        return Ok(content);
    }
    let source = String::from_utf8(content).map_err(io::Error::other)?;
    Ok(without_comments(&source).into_bytes())
}

/// Removes `/** … */`, lines that begin with `//`, indentation, and line breaks within a list or a block's beginning. A test of the sources excludes
/// texts for which this would be wrong.
fn without_comments(source: &str) -> String {
    let mut rest = source;
    let mut code = String::with_capacity(source.len());
    while let Some((before, comment)) = rest.split_once("/**") {
        code.push_str(before);
        rest = comment.split_once("*/").map_or("", |(_, after)| after);
    }
    code.push_str(rest);
    let lines = code.lines().map(str::trim);
    let lines = lines.filter(|line| !line.is_empty() && !line.starts_with("//"));
    let end = |line: &str| {
        if line.ends_with(['{', '(', '[', ',']) {
            ""
        } else {
            "\n"
        }
    };
    lines.flat_map(|line| [line, end(line)]).collect()
}

fn directory(variable: &str) -> io::Result<PathBuf> {
    env::var_os(variable)
        .map(PathBuf::from)
        .ok_or_else(|| io::Error::other(format!("{variable} is not set")))
}

fn collect(directory: &Path, files: &mut Vec<PathBuf>) -> io::Result<()> {
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            collect(&entry.path(), files)?;
        } else {
            files.push(entry.path());
        }
    }
    Ok(())
}
