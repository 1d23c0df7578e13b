//! A pseudoterminal, and its user.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

use rustix::fs::{Mode, OFlags};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};

const PATIENCE: Duration = Duration::from_secs(60);

/// Opens a pseudoterminal: the side of the user, and the side of a program.
pub(crate) fn open(columns: u16) -> (OwnedFd, OwnedFd) {
    let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
    let ours = openpt(flags).unwrap();
    grantpt(&ours).unwrap();
    unlockpt(&ours).unwrap();
    let size = Winsize {
        ws_row: 24,
        ws_col: columns,
        ws_xpixel: 0,
        ws_ypixel: 0,
    };
    tcsetwinsize(&ours, size).unwrap();
    let name = ptsname(&ours, Vec::new()).unwrap();
    let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC;
    let theirs = rustix::fs::open(&name, flags, Mode::empty()).unwrap();
    (ours, theirs)
}

/// A program on a pseudoterminal, controlled by the test as its user.
pub(crate) struct Terminal {
    pub(crate) child: Child,
    pub(crate) keys: File,
    /// The program's side of the terminal.
    pub(crate) theirs: OwnedFd,
    shown: Receiver<Vec<u8>>,
    /// Output that the test has not consumed.
    screen: Vec<u8>,
}

impl Terminal {
    /// Starts a program on a terminal without colours.
    pub(crate) fn start(command: &mut Command) -> Self {
        Self::of_width(100, command.env("NO_COLOR", "1"))
    }

    pub(crate) fn of_width(columns: u16, command: &mut Command) -> Self {
        let (ours, theirs) = open(columns);
        let another = |fd: &OwnedFd| fd.try_clone().unwrap();
        command.envs([("TERM", "xterm"), ("LANG", "C.UTF-8")]);
        command.stdin(another(&theirs)).stdout(another(&theirs));
        let child = command.stderr(another(&theirs)).spawn().unwrap();
        // Only the program holds that side now, so that its exit ends the output.
        command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let keys = File::from(ours);
        let mut screen = keys.try_clone().unwrap();
        let (send, shown) = channel();
        std::thread::spawn(move || {
            let mut piece = [0; 4096];
            while let Ok(count @ 1..) = screen.read(&mut piece) {
                if send.send(piece[..count].to_vec()).is_err() {
                    return;
                }
            }
        });
        Self {
            child,
            keys,
            theirs,
            shown,
            screen: Vec::new(),
        }
    }

    /// Waits until one of these texts is shown, and returns the output up to its end.
    #[track_caller]
    pub(crate) fn until(&mut self, texts: &[&str]) -> String {
        loop {
            let found = texts.iter().filter_map(|text| {
                let mut parts = self.screen.windows(text.len());
                let at = parts.position(|part| part == text.as_bytes())?;
                Some(at + text.len())
            });
            if let Some(end) = found.min() {
                let rest = self.screen.split_off(end);
                let seen = std::mem::replace(&mut self.screen, rest);
                return String::from_utf8(seen).unwrap();
            }
            match self.shown.recv_timeout(PATIENCE) {
                Ok(piece) => self.screen.extend(piece),
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {
                    let screen = String::from_utf8_lossy(&self.screen);
                    panic!("none of {texts:?} is shown: {screen}")
                }
            }
        }
    }

    /// Returns all output until the program has exited.
    pub(crate) fn rest(mut self) -> (String, ExitStatus) {
        let status = self.child.wait().unwrap();
        drop(self.theirs);
        while let Ok(piece) = self.shown.recv_timeout(PATIENCE) {
            self.screen.extend(piece);
        }
        (String::from_utf8(self.screen).unwrap(), status)
    }

    pub(crate) fn type_in(&mut self, line: &str) {
        writeln!(self.keys, "{line}").unwrap();
    }

    pub(crate) fn ended(mut self) -> ExitStatus {
        self.child.wait().unwrap()
    }
}
