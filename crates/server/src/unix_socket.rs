//! A Unix socket in addition to the port. Only its owner may connect.

use std::io;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::path::{Path, PathBuf};

use tokio::net::{UnixListener, UnixStream};

use crate::serve::StartError;

pub(crate) struct UnixSocket {
    listener: UnixListener,
    path: PathBuf,
}

impl UnixSocket {
    pub(crate) fn bind(path: &Path) -> Result<Self, StartError> {
        let trouble = |source| StartError::UnixSocket {
            path: path.display().to_string(),
            source,
        };
        remove_left_over(path).map_err(trouble)?;
        let listener = UnixListener::bind(path).map_err(trouble)?;
        let only_owner = std::fs::Permissions::from_mode(0o600);
        std::fs::set_permissions(path, only_owner).map_err(trouble)?;
        Ok(Self {
            listener,
            path: path.to_owned(),
        })
    }

    pub(crate) async fn accept(&self) -> io::Result<UnixStream> {
        Ok(self.listener.accept().await?.0)
    }
}

/// Refuses a path where a socket cannot be created. A host calls it before it creates other resources.
pub fn check_unix_socket(path: &Path) -> Result<(), StartError> {
    let above = match path.parent() {
        Some(above) if above != Path::new("") => above,
        _ => Path::new("."),
    };
    let is_there = std::fs::metadata(above).and_then(|found| {
        if found.is_dir() {
            is_left_over(path).map(drop)
        } else {
            Err(io::ErrorKind::NotADirectory.into())
        }
    });
    is_there.map_err(|source| StartError::UnixSocket {
        path: path.display().to_string(),
        source,
    })
}

/// Removes the socket of a killed daemon. A socket with a listener and any other file are preserved.
fn remove_left_over(path: &Path) -> io::Result<()> {
    if is_left_over(path)? {
        std::fs::remove_file(path)
    } else {
        Ok(())
    }
}

/// Returns whether there is a socket without a listener. A path that cannot be removed safely is an error.
fn is_left_over(path: &Path) -> io::Result<bool> {
    match std::fs::symlink_metadata(path) {
        Ok(found) if found.file_type().is_socket() => {
            match std::os::unix::net::UnixStream::connect(path) {
                Ok(_) => Err(io::Error::new(
                    io::ErrorKind::AddrInUse,
                    "another program listens on it",
                )),
                Err(_) => Ok(true),
            }
        }
        Ok(_) => Err(io::Error::new(
            io::ErrorKind::AlreadyExists,
            "there is a file that is no socket",
        )),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

impl Drop for UnixSocket {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}
