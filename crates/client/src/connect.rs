//! What leads to a daemon.

use std::io;
use std::path::PathBuf;

use async_trait::async_trait;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream};

/// A connection, whatever it is made of.
pub trait Connection: AsyncRead + AsyncWrite + Send + Unpin {}

impl<C: AsyncRead + AsyncWrite + Send + Unpin> Connection for C {}

/// Opens connections to a daemon.
#[async_trait]
pub trait Connect: Send + Sync {
    /// Opens one.
    async fn connect(&self) -> io::Result<Box<dyn Connection>>;
}

/// The port that a daemon listens on.
#[derive(Debug, Clone)]
pub struct ToPort(String);

impl ToPort {
    /// Takes an address as `host:port`.
    pub fn new(address: impl Into<String>) -> Self {
        Self(address.into())
    }
}

#[async_trait]
impl Connect for ToPort {
    async fn connect(&self) -> io::Result<Box<dyn Connection>> {
        let stream = TcpStream::connect(&self.0).await?;
        stream.set_nodelay(true)?;
        Ok(Box::new(stream))
    }
}

/// The Unix socket that a daemon listens on.
#[derive(Debug, Clone)]
pub struct ToSocket(PathBuf);

impl ToSocket {
    /// Takes the path of the socket.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self(path.into())
    }
}

#[async_trait]
impl Connect for ToSocket {
    async fn connect(&self) -> io::Result<Box<dyn Connection>> {
        Ok(Box::new(UnixStream::connect(&self.0).await?))
    }
}
