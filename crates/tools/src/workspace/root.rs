//! Opens the root of an environment by its real path.

use std::io;
use std::path::Path;

use cap_std::ambient_authority;
use cap_std::fs::Dir;

/// Opens a directory whose path contained no link when the environment was created. A command of another environment, whose root contains this one,
/// could have created a link there since.
pub(super) fn open(path: &Path) -> io::Result<Dir> {
    #[cfg(target_os = "linux")]
    match open_without_links(path) {
        // An old kernel, or an outer sandbox that does not allow this call.
        Err(error) if matches!(error.kind(), io::ErrorKind::Unsupported) => {}
        opened => return opened,
    }
    let root = Dir::open_ambient_dir(path, ambient_authority())?;
    if path.canonicalize()? == path {
        Ok(root)
    } else {
        Err(replaced_by_link())
    }
}

#[cfg(target_os = "linux")]
fn open_without_links(path: &Path) -> io::Result<Dir> {
    use rustix::fs::{CWD, Mode, OFlags, ResolveFlags, openat2};
    use rustix::io::Errno;

    let flags = OFlags::DIRECTORY | OFlags::CLOEXEC | OFlags::RDONLY;
    match openat2(CWD, path, flags, Mode::empty(), ResolveFlags::NO_SYMLINKS) {
        Ok(handle) => Ok(Dir::from_std_file(handle.into())),
        Err(Errno::LOOP) => Err(replaced_by_link()),
        Err(Errno::NOSYS | Errno::PERM) => Err(io::ErrorKind::Unsupported.into()),
        Err(error) => Err(error.into()),
    }
}

fn replaced_by_link() -> io::Error {
    io::Error::other("the directory was replaced by a link; create the environment again")
}
