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
    let mut digest = blake3::Hasher::new();
    let mut entries = String::new();
    for file in &files {
        let name = file.strip_prefix(&root).map_err(io::Error::other)?;
        let name = name
            .to_str()
            .ok_or_else(|| io::Error::other("a name of an asset is not UTF-8"))?;
        let content = fs::read(file)?;
        // With the lengths, no two sets of files have the same input.
        digest.update(&(name.len() as u64).to_le_bytes());
        digest.update(name.as_bytes());
        digest.update(&(content.len() as u64).to_le_bytes());
        digest.update(&content);
        writeln!(entries, "    ({name:?}, include_bytes!({file:?})),").map_err(io::Error::other)?;
    }
    // Half of the digest identifies a build as well, and keeps addresses short.
    let digest = &digest.finalize().to_hex()[..32];
    let source = format!(
        "pub(crate) const DIGEST: &str = {digest:?};\npub(crate) const FILES: &[(&str, &[u8])] = &[\n{entries}];\n"
    );
    fs::write(directory("OUT_DIR")?.join("embedded.rs"), source)
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
