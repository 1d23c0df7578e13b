//! The key that secrets of sessions are sealed with: given, or made at the first start.

use std::fs::File;
use std::io::{ErrorKind, Read};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use anyhow::{Context, bail};
use windlass_runtime::SecretsKey;

use super::private_file;

/// The file that is made where none is given.
pub(super) const FILE: &str = "secrets.key";
const BYTES: usize = 32;

/// Reads the key that is given, else that of the data directory, which is made if it is not there.
pub(super) fn load(given: Option<&Path>, directory: &Path) -> anyhow::Result<SecretsKey> {
    match given {
        Some(path) => read(path)?
            .with_context(|| format!("there is no key for secrets at {}", path.display())),
        None => {
            let path = directory.join(FILE);
            match read(&path)? {
                Some(key) => Ok(key),
                None => make(directory),
            }
        }
    }
}

/// Reads a key; `None` where there is no file.
fn read(path: &Path) -> anyhow::Result<Option<SecretsKey>> {
    let cannot = || format!("cannot read the key for secrets {}", path.display());
    let file = match File::open(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        file => file.with_context(cannot)?,
    };
    let mode = file.metadata().with_context(cannot)?.permissions().mode();
    if mode & 0o077 != 0 {
        bail!(
            "the key for secrets {0} can be read by others; run `chmod 600 {0}`",
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
            "{} holds no key for secrets: it must be {} hexadecimal digits",
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

/// Makes a key in a file that only its owner can read.
fn make(directory: &Path) -> anyhow::Result<SecretsKey> {
    let cannot = || format!("cannot keep a key for secrets in {}", directory.display());
    let mut key = [0; BYTES];
    let mut random = File::open("/dev/urandom").with_context(cannot)?;
    random.read_exact(&mut key).with_context(cannot)?;
    let text: String = key.iter().map(|byte| format!("{byte:02x}")).collect();
    private_file::put(directory, FILE, &text).with_context(cannot)?;
    Ok(SecretsKey::new(key))
}
