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
        let failed = |source| StartError::UnixSocket {
            path: path.display().to_string(),
            source,
        };
        remove_stale(path).map_err(failed)?;
        let listener = UnixListener::bind(path).map_err(failed)?;
        let only_owner = std::fs::Permissions::from_mode(0o600);
        std::fs::set_permissions(path, only_owner).map_err(failed)?;
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
    let parent = match path.parent() {
        Some(parent) if parent != Path::new("") => parent,
        _ => Path::new("."),
    };
    let checked = std::fs::metadata(parent).and_then(|metadata| {
        if metadata.is_dir() {
            is_stale(path).map(drop)
        } else {
            Err(io::ErrorKind::NotADirectory.into())
        }
    });
    checked.map_err(|source| StartError::UnixSocket {
        path: path.display().to_string(),
        source,
    })
}

/// Removes the socket of a killed daemon. A socket with a listener and any other file are preserved.
fn remove_stale(path: &Path) -> io::Result<()> {
    if is_stale(path)? {
        std::fs::remove_file(path)?;
    }
    Ok(())
}

/// Returns whether there is a socket without a listener. A path that cannot be removed safely is an error.
fn is_stale(path: &Path) -> io::Result<bool> {
    match std::fs::symlink_metadata(path) {
        Ok(metadata) if metadata.file_type().is_socket() => {
            if std::os::unix::net::UnixStream::connect(path).is_ok() {
                let text = "another program listens on it";
                return Err(io::Error::new(io::ErrorKind::AddrInUse, text));
            }
            Ok(true)
        }
        Ok(_) => {
            let text = "there is a file that is not a socket";
            Err(io::Error::new(io::ErrorKind::AlreadyExists, text))
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

impl Drop for UnixSocket {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}
