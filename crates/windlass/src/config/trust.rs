//! Configuration files that the user trusts.
//!
//! A configuration determines where keys are sent, and a directory that was cloned or changed by a model may contain one that the user never saw. A
//! file that is found automatically therefore applies only if the user has trusted its path and content. That decision is stored in the data
//! directory, out of reach of repositories and models.

use std::path::{Path, PathBuf};

use anyhow::{Result, bail};
use serde::{Deserialize, Serialize};
use windlass_macros::Defaults;
use windlass_server::{JsonContents, JsonFile};

const FILE: &str = "trusted.json";

/// A file with its content at the time when the user trusted it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct TrustedFile {
    /// The absolute path, without symlinks.
    pub(crate) path: PathBuf,
    /// The digest of the content, in hex.
    pub(crate) digest: String,
}

#[derive(Debug, Serialize, Deserialize, Defaults)]
#[serde(deny_unknown_fields)]
struct TrustedFiles {
    #[default(Self::VERSION)]
    version: u32,
    files: Vec<TrustedFile>,
}

impl JsonContents for TrustedFiles {
    const VERSION: u32 = 1;
    const WHAT: &'static str = "trusted files";
    const FORBIDDEN_MODE: u32 = 0o077;

    fn version(&self) -> u32 {
        self.version
    }
}

/// The trust status of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TrustStatus {
    Trusted,
    /// The file was trusted with different content.
    Changed,
    Unknown,
}

/// The trusted files of a data directory.
pub(crate) struct TrustList {
    file: JsonFile<TrustedFiles>,
}

impl TrustList {
    pub(crate) fn new(directory: &Path) -> Self {
        Self {
            file: JsonFile::new(directory.join(FILE)),
        }
    }

    /// Returns the files in the order in which they were trusted.
    pub(crate) fn files(&self) -> Result<Vec<TrustedFile>> {
        let contents = self.file.try_read()?;
        Ok(contents.unwrap_or_default().files)
    }

    /// Returns the status of a file with this content.
    pub(crate) fn status(&self, path: &Path, text: &str) -> Result<TrustStatus> {
        let files = self.files()?;
        let known = files.iter().find(|file| file.path == path);
        Ok(match known {
            Some(file) if file.digest == digest(text) => TrustStatus::Trusted,
            Some(_) => TrustStatus::Changed,
            None => TrustStatus::Unknown,
        })
    }

    /// Trusts a file with this content, and revokes trust in its earlier content.
    pub(crate) fn add(&self, path: &Path, text: &str) -> Result<TrustedFile> {
        if path.to_str().is_none() {
            bail!("{} is not UTF-8 and cannot be stored", path.display());
        }
        let trusted = TrustedFile {
            path: path.to_owned(),
            digest: digest(text),
        };
        self.file.update(|TrustedFiles { files, .. }| {
            files.retain(|file| file.path != path);
            files.push(trusted.clone());
        })?;
        Ok(trusted)
    }

    /// Revokes the trust in a file; returns whether it was trusted.
    pub(crate) fn remove(&self, path: &Path) -> Result<bool> {
        Ok(self.file.update(|TrustedFiles { files, .. }| {
            let before = files.len();
            files.retain(|file| file.path != path);
            files.len() < before
        })?)
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
        let list = TrustList::new(directory.path());
        let (here, there) = (Path::new("/a/windlass.toml"), Path::new("/b/windlass.toml"));
        assert_eq!(list.status(here, "x").unwrap(), TrustStatus::Unknown);
        list.add(here, "x").unwrap();
        assert_eq!(list.status(here, "x").unwrap(), TrustStatus::Trusted);
        assert_eq!(list.status(here, "y").unwrap(), TrustStatus::Changed);
        assert_eq!(list.status(there, "x").unwrap(), TrustStatus::Unknown);
        list.add(here, "y").unwrap();
        assert_eq!(list.status(here, "x").unwrap(), TrustStatus::Changed);
        assert!(list.remove(here).unwrap());
        assert!(!list.remove(here).unwrap());
        assert_eq!(list.status(here, "y").unwrap(), TrustStatus::Unknown);
    }

    #[test]
    fn list_that_other_users_could_write_is_rejected() {
        let directory = tempfile::tempdir().unwrap();
        let list = TrustList::new(directory.path());
        let path = Path::new("/a/windlass.toml");
        list.add(path, "x").unwrap();
        let file = directory.path().join(FILE);
        let mode = fs::metadata(&file).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);

        fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).unwrap();
        let error = list.status(path, "x").unwrap_err().to_string();
        assert!(error.contains("chmod 600"), "{error}");
        fs::rename(&file, directory.path().join("elsewhere")).unwrap();
        std::os::unix::fs::symlink("elsewhere", &file).unwrap();
        assert!(list.status(path, "x").is_err());
        fs::remove_file(&file).unwrap();
        crate::data::private_file::write(directory.path(), FILE, r#"{"version":9,"files":[]}"#)
            .unwrap();
        assert!(list.status(path, "x").is_err());
        assert!(
            list.add(path, "x").is_err(),
            "an unreadable list is not overwritten"
        );
    }
}
