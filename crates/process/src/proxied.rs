//! The only way out of a sandbox without a network: a listener on the sandbox's loopback interface, on which the host accepts connections.
//!
//! A launcher program of the host starts first in the sandbox. It listens, passes the listener to the host over its standard input, and then executes
//! the command, which finds the listener in the usual variables. No helper process remains in the sandbox that a command could deceive or kill, and
//! no socket has a name by which another sandbox could reach it.

use std::ffi::OsString;
use std::io::{self, IoSlice, IoSliceMut, Write};
use std::mem::MaybeUninit;
use std::net::{Ipv4Addr, TcpListener};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, ExitCode, Stdio};

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, Shutdown, recvmsg, sendmsg, shutdown,
};

/// Path of the launcher in a sandbox: every sandbox has a private `/dev`.
pub(crate) const LAUNCHER_PATH: &str = "/dev/windlass-launcher";
/// Payload sent with the listener, because a message cannot be empty.
const WORD: &[u8] = b"l";
/// Variables that programs read to find a proxy. Programs disagree on the case.
const VARIABLES: [&str; 6] = [
    "HTTP_PROXY",
    "http_proxy",
    "HTTPS_PROXY",
    "https_proxy",
    "ALL_PROXY",
    "all_proxy",
];
/// Destinations that bypass the proxy: the sandbox's own loopback interface.
const NOT_PROXIED: &str = "localhost,127.0.0.1,::1";

/// A program of the host that calls [`become_proxied`] when it is started with these words followed by a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Launcher {
    /// Absolute path of the program.
    pub program: PathBuf,
    /// The words that precede the command.
    pub words: Vec<OsString>,
}

/// The program's side of the channel.
#[derive(Debug)]
pub struct Proxied {
    pub(crate) launcher: Launcher,
    pub(crate) channel: UnixStream,
}

/// The host's side of the channel, on which the listener arrives.
#[derive(Debug)]
pub struct InnerListener(UnixStream);

impl Proxied {
    /// Creates both sides.
    pub fn new(launcher: Launcher) -> io::Result<(Self, InnerListener)> {
        let (ours, channel) = UnixStream::pair()?;
        Ok((Self { launcher, channel }, InnerListener(ours)))
    }
}

impl InnerListener {
    /// Returns the channel, for use with an event loop.
    #[must_use]
    pub fn into_channel(self) -> UnixStream {
        self.0
    }

    /// Receives the listener from the channel; `None` if the sandbox ended without sending one.
    pub fn receive(channel: impl AsFd) -> io::Result<Option<TcpListener>> {
        let mut word = [0; WORD.len()];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        #[cfg(target_os = "linux")]
        let flags = RecvFlags::CMSG_CLOEXEC;
        #[cfg(not(target_os = "linux"))]
        let flags = RecvFlags::empty();
        let mut words = [IoSliceMut::new(&mut word)];
        recvmsg(channel, &mut words, &mut control, flags)?;
        let sent = control.drain().find_map(|message| match message {
            RecvAncillaryMessage::ScmRights(mut handles) => handles.next(),
            _ => None,
        });
        let Some(listener) = sent.map(TcpListener::from) else {
            return Ok(None);
        };
        if !listener.local_addr()?.ip().is_loopback() {
            return Err(io::ErrorKind::InvalidData.into());
        }
        listener.set_nonblocking(true)?;
        Ok(Some(listener))
    }
}

/// Executes a command whose proxy is the host; a [`Launcher`] calls this inside the sandbox. Standard input is the channel to the host. Returns only
/// on failure, after printing the reason to stderr.
pub fn become_proxied(command: impl IntoIterator<Item = OsString>) -> ExitCode {
    let failed = begin(command);
    let _ = writeln!(io::stderr(), "the command was not started: {failed}");
    ExitCode::from(126)
}

fn begin(command: impl IntoIterator<Item = OsString>) -> io::Error {
    let mut words = command.into_iter();
    let Some(program) = words.next() else {
        return io::Error::other("no command was specified");
    };
    let proxy = match send_listener(io::stdin().as_fd()) {
        Ok(port) => format!("http://127.0.0.1:{port}"),
        Err(error) => return error,
    };
    Command::new(program)
        .args(words)
        .envs(VARIABLES.map(|name| (name, &proxy)))
        .envs(["NO_PROXY", "no_proxy"].map(|name| (name, NOT_PROXIED)))
        .stdin(Stdio::null())
        .exec()
}

/// Listens and sends the listener to the host. Returns the port.
fn send_listener(channel: BorrowedFd<'_>) -> io::Result<u16> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let port = listener.local_addr()?.port();
    let listener = OwnedFd::from(listener);
    let handles = [listener.as_fd()];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !control.push(SendAncillaryMessage::ScmRights(&handles)) {
        return Err(io::Error::other(
            "the control message has no space for a listener",
        ));
    }
    sendmsg(
        channel,
        &[IoSlice::new(WORD)],
        &mut control,
        SendFlags::empty(),
    )?;
    // The sandbox's init still holds the channel. Messages that a command sent through it, including open files, would stay queued at the host.
    shutdown(channel, Shutdown::Both)?;
    Ok(port)
}
