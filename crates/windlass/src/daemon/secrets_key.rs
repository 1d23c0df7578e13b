//! The key that encrypts the secrets of sessions: given, or generated at the first start.

use std::fs::File;
use std::io::{ErrorKind, Read};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use windlass_runtime::SecretsKey;

use crate::data::private_file;

/// The generated key file.
pub(crate) const FILE: &str = "secrets.key";
/// The environment variable that names another key file.
pub(crate) const FILE_VARIABLE: &str = "WINDLASS_SECRETS_KEY_FILE";
const BYTES: usize = 32;

/// A generated key that is not stored yet.
pub(crate) struct NewKey(String);

/// Returns the file from the environment variable; a blank variable is ignored.
pub(crate) fn file_from_environment() -> Option<PathBuf> {
    let file_from_environment = std::env::var_os(FILE_VARIABLE);
    let file_from_environment =
        file_from_environment.filter(|name| !name.to_string_lossy().trim().is_empty());
    file_from_environment.map(PathBuf::from)
}

/// Reads the given key, else the key of the data directory. If there is none, generates one, to be [stored](NewKey::keep) once the store is open: a
/// failed start leaves no key behind.
pub(crate) fn load(
    given: Option<&Path>,
    directory: &Path,
) -> anyhow::Result<(SecretsKey, Option<NewKey>)> {
    let Some(path) = given else {
        return match read(&directory.join(FILE))? {
            Some(key) => Ok((key, None)),
            None => generate().map(|(key, new_key)| (key, Some(new_key))),
        };
    };
    let key = read(path)?;
    let key = key.with_context(|| format!("there is no key for secrets at {}", path.display()))?;
    Ok((key, None))
}

impl NewKey {
    /// Writes the key to a file that only its owner can read.
    pub(crate) fn store(self, directory: &Path) -> anyhow::Result<()> {
        let stored = private_file::write(directory, FILE, &self.0);
        stored.with_context(|| {
            format!("cannot store a key for secrets in {}", directory.display())
        })?;
        Ok(())
    }
}

/// Reads a key; `None` if the file does not exist.
fn read(path: &Path) -> anyhow::Result<Option<SecretsKey>> {
    let cannot = || format!("cannot read the key for secrets {}", path.display());
    let file = match File::open(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        file => file.with_context(cannot)?,
    };
    let mode = file.metadata().with_context(cannot)?.permissions().mode();
    if mode & 0o077 != 0 {
        bail!(
            "the key for secrets {0} can be read by other users; run `chmod 600 {0}`",
            path.display()
        );
    }
    let mut text = String::new();
    file.take(1024)
        .read_to_string(&mut text)
        .with_context(cannot)?;
    let key = parse(text.trim());
    let key = key.with_context(|| {
        format!(
            "{} contains no key for secrets: it must be {} hexadecimal digits",
            path.display(),
            BYTES * 2
        )
    })?;
    Ok(Some(SecretsKey::new(key)))
}

fn parse(text: &str) -> Option<[u8; BYTES]> {
    if text.len() != BYTES * 2 || !text.is_ascii() {
        return None;
    }
    let mut key = [0; BYTES];
    for (byte, digits) in key.iter_mut().zip(text.as_bytes().chunks(2)) {
        let digits = std::str::from_utf8(digits).ok()?;
        *byte = u8::from_str_radix(digits, 16).ok()?;
    }
    Some(key)
}

fn generate() -> anyhow::Result<(SecretsKey, NewKey)> {
    let cannot = "cannot generate a key for secrets from /dev/urandom";
    let mut key = [0; BYTES];
    let mut random = File::open("/dev/urandom").context(cannot)?;
    random.read_exact(&mut key).context(cannot)?;
    let text = key.iter().map(|byte| format!("{byte:02x}")).collect();
    Ok((SecretsKey::new(key), NewKey(text)))
}
