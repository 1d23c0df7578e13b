//! The token file of the data directory.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use uuid::Uuid;

use crate::data::{own_file, private_file};

/// The token file in the data directory.
pub(crate) const FILE: &str = "token";
/// Minimum length of a generated token; a shorter one was not generated here.
const MIN_LENGTH: usize = 64;

/// Reads a token from a file.
pub(crate) fn read(path: &Path) -> anyhow::Result<String> {
    let text = fs::read_to_string(path);
    let text = text.with_context(|| format!("cannot read the token file {}", path.display()))?;
    match text.trim() {
        "" => bail!("the token file {} is empty", path.display()),
        token => Ok(token.to_owned()),
    }
}

/// Returns the token of a data directory. Generates a token if there is none or if other users could read it.
pub(crate) fn load_or_create(directory: &Path) -> anyhow::Result<(String, PathBuf)> {
    let path = directory.join(FILE);
    if let Ok(Some(file)) = own_file::read(&path)
        && file.mode & 0o077 == 0
        && file.text.trim().len() >= MIN_LENGTH
    {
        return Ok((file.text.trim().to_owned(), path));
    }
    let cannot = || format!("cannot store a token in {}", directory.display());
    let token = format!(
        "{}{}",
        Uuid::new_v4().as_simple(),
        Uuid::new_v4().as_simple()
    );
    let path = private_file::write(directory, FILE, &token).with_context(cannot)?;
    Ok((token, path))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn token_is_replaced_if_other_users_could_read_it() {
        let directory = tempfile::tempdir().unwrap();
        let (first, path) = load_or_create(directory.path()).unwrap();
        assert_eq!(load_or_create(directory.path()).unwrap().0, first);
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
        let (second, _) = load_or_create(directory.path()).unwrap();
        assert_ne!(first, second);
        fs::write(&path, "short").unwrap();
        assert_ne!(load_or_create(directory.path()).unwrap().0, second);
        let mode = fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }
}
