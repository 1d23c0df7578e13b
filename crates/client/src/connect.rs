//! Connections to a daemon.

use std::io;
use std::path::PathBuf;

use async_trait::async_trait;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream};

/// A byte stream to a daemon.
pub trait Connection: AsyncRead + AsyncWrite + Send + Unpin {}

impl<C: AsyncRead + AsyncWrite + Send + Unpin> Connection for C {}

/// Opens connections to a daemon.
#[async_trait]
pub trait Connect: Send + Sync {
    /// Opens a connection to the daemon.
    async fn connect(&self) -> io::Result<Box<dyn Connection>>;
}

/// Connects to the TCP port of a daemon.
#[derive(Debug, Clone)]
pub struct TcpConnector(String);

impl TcpConnector {
    /// Takes an address as `host:port`.
    pub fn new(address: impl Into<String>) -> Self {
        Self(address.into())
    }
}

#[async_trait]
impl Connect for TcpConnector {
    async fn connect(&self) -> io::Result<Box<dyn Connection>> {
        let stream = TcpStream::connect(&self.0).await?;
        stream.set_nodelay(true)?;
        Ok(Box::new(stream))
    }
}

/// Connects to the Unix socket of a daemon of the same user or of root. A socket of any other user is refused, because its owner would get the token.
#[derive(Debug, Clone)]
pub struct UnixConnector(PathBuf);

impl UnixConnector {
    /// Takes the path of the socket.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self(path.into())
    }
}

#[async_trait]
impl Connect for UnixConnector {
    async fn connect(&self) -> io::Result<Box<dyn Connection>> {
        let stream = UnixStream::connect(&self.0).await?;
        check_peer(
            stream.peer_cred()?.uid(),
            rustix::process::geteuid().as_raw(),
        )?;
        Ok(Box::new(stream))
    }
}

/// Refuses a socket of another user.
fn check_peer(peer: u32, user: u32) -> io::Result<()> {
    if peer == user || peer == 0 {
        return Ok(());
    }
    Err(io::Error::new(
        io::ErrorKind::PermissionDenied,
        format!("the socket belongs to another user (uid {peer})"),
    ))
}

#[cfg(test)]
mod tests {
    use super::check_peer;

    #[test]
    fn only_sockets_of_the_user_and_root_are_accepted() {
        for (peer, user, is_good) in [
            (1000, 1000, true),
            (0, 1000, true),
            (0, 0, true),
            (1001, 1000, false),
            (1000, 0, false),
        ] {
            assert_eq!(check_peer(peer, user).is_ok(), is_good, "{peer} {user}");
        }
    }
}
