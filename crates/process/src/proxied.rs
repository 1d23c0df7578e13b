//! The only way out of a sandbox without a network: a listener on its own loopback, on which the host accepts.
//!
//! A program of the host starts first in the sandbox. It listens there, hands the listener to the host over its standard input, and becomes
//! the command, which finds the listener in the usual variables. Nobody is left in the sandbox to be deceived or ended, and no socket has a
//! name by which another sandbox could reach it.

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

/// Where a sandbox shows the launcher: it has a `/dev` of its own, whatever else it shows.
pub(crate) const LAUNCHER_PLACE: &str = "/dev/windlass-launcher";
/// What is sent beside the listener, because something must be.
const WORD: &[u8] = b"l";
/// What programs read to find a proxy. Not all agree on the case.
const VARIABLES: [&str; 6] = [
    "HTTP_PROXY",
    "http_proxy",
    "HTTPS_PROXY",
    "https_proxy",
    "ALL_PROXY",
    "all_proxy",
];
/// What stays inside: the sandbox's own loopback.
const NOT_PROXIED: &str = "localhost,127.0.0.1,::1";

/// A program of the host that calls [`become_proxied`] when it is started with these words and further ones.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Launcher {
    /// Its absolute path.
    pub program: PathBuf,
    /// The words that come before the command.
    pub words: Vec<OsString>,
}

/// The program's side of a way out.
#[derive(Debug)]
pub struct Proxied {
    pub(crate) launcher: Launcher,
    pub(crate) channel: UnixStream,
}

/// The host's side of it: where the listener arrives.
#[derive(Debug)]
pub struct InnerListener(UnixStream);

impl Proxied {
    /// Makes both sides.
    pub fn new(launcher: Launcher) -> io::Result<(Self, InnerListener)> {
        let (ours, channel) = UnixStream::pair()?;
        Ok((Self { launcher, channel }, InnerListener(ours)))
    }
}

impl InnerListener {
    /// Returns the channel, to wait on.
    #[must_use]
    pub fn into_channel(self) -> UnixStream {
        self.0
    }

    /// Takes the listener from the channel; `None` if the sandbox ended without one.
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

/// Becomes a command whose proxy is the host: what a [`Launcher`] does inside of the sandbox. Its standard input is the channel to the host.
/// Returns only if that fails, and has told why on stderr.
pub fn become_proxied(command: impl IntoIterator<Item = OsString>) -> ExitCode {
    let failed = begin(command);
    let _ = writeln!(io::stderr(), "the command was not started: {failed}");
    ExitCode::from(126)
}

fn begin(command: impl IntoIterator<Item = OsString>) -> io::Error {
    let mut words = command.into_iter();
    let Some(program) = words.next() else {
        return io::Error::other("no command was named");
    };
    let proxy = match hand_over(io::stdin().as_fd()) {
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

/// Listens, and gives the listener away. Returns where it is.
fn hand_over(channel: BorrowedFd<'_>) -> io::Result<u16> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let port = listener.local_addr()?.port();
    let listener = OwnedFd::from(listener);
    let handles = [listener.as_fd()];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !control.push(SendAncillaryMessage::ScmRights(&handles)) {
        return Err(io::Error::other("there is no room for a listener"));
    }
    sendmsg(
        channel,
        &[IoSlice::new(WORD)],
        &mut control,
        SendFlags::empty(),
    )?;
    // The sandbox's init keeps the channel. What a command sent through it, open files among it, would wait with the host for nobody.
    shutdown(channel, Shutdown::Both)?;
    Ok(port)
}
