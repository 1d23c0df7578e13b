//! A file that has no name until it is complete, so that a kill during the write leaves nothing.

use std::io::{self, Write};

use cap_std::fs::{Dir, File, OpenOptions, Permissions};

/// The contents and permissions of a file to write.
pub(super) struct FileContents<'a> {
    pub(super) bytes: &'a [u8],
    pub(super) permissions: Option<Permissions>,
}

impl FileContents<'_> {
    /// Writes an unnamed file in the file system of a directory; `None` if the system does not support it.
    pub(super) fn write_unnamed(&self, directory: &Dir) -> io::Result<Option<File>> {
        let Some(file) = create_unnamed(directory) else {
            return Ok(None);
        };
        self.fill(file).map(Some)
    }

    /// Gives a file its name, which must not exist yet. Without an unnamed file, writes a named one now.
    pub(super) fn link_as(
        &self,
        file: Option<File>,
        directory: &Dir,
        link_as: &str,
    ) -> io::Result<()> {
        match file {
            Some(file) if link(&file, directory, link_as).is_ok() => Ok(()),
            _ => self.write_new(directory, link_as),
        }
    }

    /// Writes a file that does not exist yet.
    pub(super) fn write_new(&self, directory: &Dir, link_as: &str) -> io::Result<()> {
        let mut options = OpenOptions::new();
        options.write(true).create_new(true);
        self.fill(directory.open_with(link_as, &options)?).map(drop)
    }

    fn fill(&self, mut file: File) -> io::Result<File> {
        file.write_all(self.bytes)?;
        if let Some(permissions) = &self.permissions {
            file.set_permissions(permissions.clone())?;
        }
        Ok(file)
    }
}

#[cfg(target_os = "linux")]
fn create_unnamed(directory: &Dir) -> Option<File> {
    use rustix::fs::{Mode, OFlags, openat};

    let flags = OFlags::WRONLY | OFlags::TMPFILE | OFlags::CLOEXEC;
    // As for every new file, the umask determines the access of other users.
    let file = openat(directory, ".", flags, Mode::from_raw_mode(0o666)).ok()?;
    Some(File::from_std(file.into()))
}

#[cfg(target_os = "linux")]
fn link(file: &File, directory: &Dir, link_as: &str) -> io::Result<()> {
    use std::os::fd::AsRawFd;

    use rustix::fs::{AtFlags, CWD, linkat};

    let open = format!("/proc/self/fd/{}", file.as_raw_fd());
    Ok(linkat(
        CWD,
        open,
        directory,
        link_as,
        AtFlags::SYMLINK_FOLLOW,
    )?)
}

/// Unnamed files exist only on Linux.
#[cfg(not(target_os = "linux"))]
fn create_unnamed(_directory: &Dir) -> Option<File> {
    None
}

#[cfg(not(target_os = "linux"))]
fn link(_file: &File, _directory: &Dir, _name: &str) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use cap_std::ambient_authority;
    use cap_std::fs::PermissionsExt;

    #[test]
    fn file_has_no_name_until_it_is_complete() {
        let root = tempfile::tempdir().unwrap();
        let directory = Dir::open_ambient_dir(root.path(), ambient_authority()).unwrap();
        let contents = FileContents {
            bytes: b"whole",
            permissions: Some(Permissions::from_mode(0o640)),
        };
        let file = contents.write_unnamed(&directory).unwrap();
        assert_eq!(directory.entries().unwrap().count(), 0);
        contents.link_as(file, &directory, "f").unwrap();
        assert_eq!(directory.read("f").unwrap(), b"whole");
        let mode = directory.metadata("f").unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o640);
        // An existing name is not replaced.
        let file = contents.write_unnamed(&directory).unwrap();
        assert!(contents.link_as(file, &directory, "f").is_err());
    }

    #[test]
    fn named_file_is_written_without_support_for_unnamed_ones() {
        let root = tempfile::tempdir().unwrap();
        let directory = Dir::open_ambient_dir(root.path(), ambient_authority()).unwrap();
        let contents = FileContents {
            bytes: b"whole",
            permissions: None,
        };
        contents.link_as(None, &directory, "f").unwrap();
        assert_eq!(directory.read("f").unwrap(), b"whole");
    }
}
