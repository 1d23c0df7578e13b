//! Which configuration files the user has trusted.
//!
//! A configuration says where keys are sent, and a directory that was cloned, or that a model has worked in, may hold one
//! that its owner never saw. So a file that is found counts only when its path and its content were trusted, by a word of
//! the user that is kept in the data directory, out of the reach of repositories and models.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};

use crate::{own_file, private_file};

const FILE: &str = "trusted.json";
const LOCK: &str = "trusted.lock";
const VERSION: u32 = 1;

/// A file as it was when the user trusted it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Trusted {
    /// Its absolute path, without links.
    pub(crate) path: PathBuf,
    /// The digest of its content, as hex.
    pub(crate) digest: String,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Contents {
    version: u32,
    files: Vec<Trusted>,
}

/// What is known of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TrustStatus {
    Trusted,
    /// It was trusted with another content.
    Changed,
    Unknown,
}

/// The trusted files of a data directory.
pub(crate) struct TrustList<'a> {
    directory: &'a Path,
}

impl<'a> TrustList<'a> {
    pub(crate) fn of(directory: &'a Path) -> Self {
        Self { directory }
    }

    /// Lists the files in the order in which they were trusted.
    pub(crate) fn files(&self) -> Result<Vec<Trusted>> {
        let path = self.directory.join(FILE);
        let unusable = || format!("{} cannot be used", path.display());
        let Some(file) = own_file::read(&path).with_context(unusable)? else {
            return Ok(Vec::new());
        };
        if file.mode & 0o077 != 0 {
            bail!(
                "{0} can be reached by others; check what is in it, then run `chmod 600 {0}`",
                path.display()
            );
        }
        let contents: Contents = serde_json::from_str(&file.text).with_context(unusable)?;
        if contents.version != VERSION {
            bail!(
                "{} has version {}, and this program knows {VERSION}; use a newer Windlass",
                path.display(),
                contents.version
            );
        }
        Ok(contents.files)
    }

    /// Tells what is known of a file with this content.
    pub(crate) fn standing(&self, path: &Path, text: &str) -> Result<TrustStatus> {
        let files = self.files()?;
        let known = files.iter().find(|file| file.path == path);
        Ok(match known {
            Some(file) if file.digest == digest(text) => TrustStatus::Trusted,
            Some(_) => TrustStatus::Changed,
            None => TrustStatus::Unknown,
        })
    }

    /// Trusts a file with this content, and no longer with another.
    pub(crate) fn add(&self, path: &Path, text: &str) -> Result<Trusted> {
        if path.to_str().is_none() {
            bail!("{} is not UTF-8 and cannot be noted", path.display());
        }
        let trusted = Trusted {
            path: path.to_owned(),
            digest: digest(text),
        };
        self.change(|files| {
            files.retain(|file| file.path != path);
            files.push(trusted.clone());
        })?;
        Ok(trusted)
    }

    /// Trusts a file no longer; tells whether it was.
    pub(crate) fn remove(&self, path: &Path) -> Result<bool> {
        self.change(|files| {
            let before = files.len();
            files.retain(|file| file.path != path);
            files.len() < before
        })
    }

    fn change<T>(&self, change: impl FnOnce(&mut Vec<Trusted>) -> T) -> Result<T> {
        let cannot = || format!("cannot change {}", self.directory.join(FILE).display());
        let _held = self.lock().with_context(cannot)?;
        let mut files = self.files()?;
        let result = change(&mut files);
        let version = VERSION;
        let text = serde_json::to_string_pretty(&Contents { version, files })?;
        private_file::put(self.directory, FILE, &text).with_context(cannot)?;
        Ok(result)
    }

    fn lock(&self) -> io::Result<File> {
        let file = OpenOptions::new()
            .create(true)
            .truncate(false)
            .write(true)
            .mode(0o600)
            .open(self.directory.join(LOCK))?;
        file.lock()?;
        Ok(file)
    }
}

fn digest(text: &str) -> String {
    blake3::hash(text.as_bytes()).to_hex().to_string()
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn trust_is_bound_to_path_and_content() {
        let directory = tempfile::tempdir().unwrap();
        let list = TrustList::of(directory.path());
        let (here, there) = (Path::new("/a/windlass.toml"), Path::new("/b/windlass.toml"));
        assert_eq!(list.standing(here, "x").unwrap(), TrustStatus::Unknown);
        list.add(here, "x").unwrap();
        assert_eq!(list.standing(here, "x").unwrap(), TrustStatus::Trusted);
        assert_eq!(list.standing(here, "y").unwrap(), TrustStatus::Changed);
        assert_eq!(list.standing(there, "x").unwrap(), TrustStatus::Unknown);
        list.add(here, "y").unwrap();
        assert_eq!(list.standing(here, "x").unwrap(), TrustStatus::Changed);
        assert!(list.remove(here).unwrap());
        assert!(!list.remove(here).unwrap());
        assert_eq!(list.standing(here, "y").unwrap(), TrustStatus::Unknown);
    }

    #[test]
    fn a_list_that_others_could_have_written_trusts_nothing() {
        let directory = tempfile::tempdir().unwrap();
        let list = TrustList::of(directory.path());
        let path = Path::new("/a/windlass.toml");
        list.add(path, "x").unwrap();
        let file = directory.path().join(FILE);
        let mode = fs::metadata(&file).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);

        fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).unwrap();
        let error = list.standing(path, "x").unwrap_err().to_string();
        assert!(error.contains("chmod 600"), "{error}");
        fs::rename(&file, directory.path().join("elsewhere")).unwrap();
        std::os::unix::fs::symlink("elsewhere", &file).unwrap();
        assert!(list.standing(path, "x").is_err());
        fs::remove_file(&file).unwrap();
        private_file::put(directory.path(), FILE, r#"{"version":9,"files":[]}"#).unwrap();
        assert!(list.standing(path, "x").is_err());
        assert!(list.add(path, "x").is_err(), "what cannot be read stays");
    }
}
