//! Small files that only their owner can read.

use std::fs::{File, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags};

/// Writes a text to a file of a directory atomically. An existing file may be open to other users, so it is replaced rather than overwritten.
pub(crate) fn write(directory: &Path, name: &str, text: &str) -> io::Result<PathBuf> {
    let mut builder = tempfile::Builder::new();
    let mut file = builder
        .prefix(&format!(".{name}-"))
        .tempfile_in(directory)?;
    file.write_all(text.as_bytes())?;
    file.as_file().sync_all()?;
    let path = directory.join(name);
    file.persist(&path)?;
    Ok(path)
}

/// Creates a file that only its owner can read, or restricts an existing one, for code that opens it by path. A symlink is rejected.
pub(crate) fn prepare(path: &Path) -> io::Result<()> {
    let flags =
        OFlags::RDWR | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = File::from(rustix::fs::open(path, flags, Mode::RUSR | Mode::WUSR)?);
    if !file.metadata()?.is_file() {
        return Err(io::Error::other("it is not a regular file"));
    }
    file.set_permissions(Permissions::from_mode(0o600))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn prepared_file_is_private_and_symlinks_are_rejected() {
        let directory = tempfile::tempdir().unwrap();
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        let file = directory.path().join("file");
        prepare(&file).unwrap();
        assert_eq!(mode(&file), 0o600);
        fs::write(&file, "content").unwrap();
        fs::set_permissions(&file, Permissions::from_mode(0o644)).unwrap();
        prepare(&file).unwrap();
        assert_eq!(mode(&file), 0o600);
        assert_eq!(fs::read_to_string(&file).unwrap(), "content");
        let other = directory.path().join("other");
        symlink(&other, directory.path().join("link")).unwrap();
        assert!(prepare(&directory.path().join("link")).is_err());
        assert!(!other.exists());
    }
}
