//! The init of a bubblewrap sandbox: the first process of a PID namespace.
//!
//! When it ends for any reason, the kernel kills all other processes of the namespace. It is reported as dead only when all of them are gone, and no
//! process can leave the namespace. Its pidfd therefore shows that no process is left, immediately and without a scan of all processes of the
//! machine.

#[cfg(target_os = "linux")]
pub(crate) use linux::SandboxInit;
#[cfg(not(target_os = "linux"))]
pub(crate) use unknown::SandboxInit;

#[cfg(target_os = "linux")]
mod linux {
    use std::io::{ErrorKind, PipeReader, Read};
    use std::os::fd::{AsFd, OwnedFd};
    use std::time::{Duration, Instant};

    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    use rustix::io::Errno;
    use rustix::process::{
        Pid, PidfdFlags, Signal, WaitId, WaitIdOptions, pidfd_open, pidfd_send_signal, waitid,
    };

    use crate::processes::Member;

    /// How long it may take to exit before its processes are searched one by one.
    const EXIT_TIMEOUT: Duration = Duration::from_secs(1);
    /// The key before its PID in bubblewrap's report, and the maximum length of the report.
    const PID_KEY: &str = "\"child-pid\":";
    const MAX_REPORT: usize = 4096;

    /// The init of a sandbox, with its pidfd.
    pub(crate) struct SandboxInit {
        handle: OwnedFd,
        member: Member,
    }

    impl SandboxInit {
        /// Waits until bubblewrap has reported the PID of its init. `None` if bubblewrap ended before that, or if the PID cannot be verified. The
        /// pipe must stay open until bubblewrap is gone: a failed write would end it.
        pub(crate) fn wait_for(bubblewrap: Pid, info: &PipeReader) -> Option<Self> {
            let number = read_pid(bubblewrap, info)?;
            // The handle is opened before the check: a process that is a child of bubblewrap now was one when the handle was opened.
            let handle = pidfd_open(number, PidfdFlags::empty()).ok()?;
            let member = Member::init_below(number, bubblewrap)?;
            Some(Self { handle, member })
        }

        /// Returns its identity for the record.
        pub(crate) fn member(&self) -> Member {
            self.member
        }

        /// Kills the init after bubblewrap has exited, and with it all processes in the sandbox. Returns whether they are gone.
        pub(crate) fn end(&self) -> bool {
            let _ = pidfd_send_signal(&self.handle, Signal::KILL);
            let deadline = Instant::now() + EXIT_TIMEOUT;
            loop {
                let left = deadline.saturating_duration_since(Instant::now());
                let left = Timespec::try_from(left).unwrap_or_default();
                let mut files = [PollFd::new(&self.handle, PollFlags::IN)];
                match poll(&mut files, Some(&left)) {
                    Err(Errno::INTR) => {}
                    Err(_) | Ok(0) => return false,
                    Ok(_) => break,
                }
            }
            // Reap it: if the host adopts orphans, the init has become its child.
            let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG;
            let _ = waitid(WaitId::PidFd(self.handle.as_fd()), options);
            true
        }
    }

    /// Reads the PID. It does not wait for the end of the report, because other processes may have inherited the pipe.
    fn read_pid(bubblewrap: Pid, mut info: &PipeReader) -> Option<Pid> {
        let bubblewrap = pidfd_open(bubblewrap, PidfdFlags::empty()).ok()?;
        let mut text = Vec::new();
        let mut buffer = [0; 1024];
        while text.len() < MAX_REPORT {
            let mut files = [
                PollFd::new(info, PollFlags::IN),
                PollFd::new(&bubblewrap, PollFlags::IN),
            ];
            match poll(&mut files, None) {
                Err(Errno::INTR) => continue,
                Err(_) => return None,
                Ok(_) if files[0].revents().is_empty() => return None,
                Ok(_) => {}
            }
            match info.read(&mut buffer) {
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Ok(0) | Err(_) => return None,
                Ok(count) => text.extend_from_slice(&buffer[..count]),
            }
            if let Some(number) = parse_pid(&text) {
                return Pid::from_raw(number);
            }
        }
        None
    }

    /// Returns the PID in the text read so far, if it is complete.
    fn parse_pid(text: &[u8]) -> Option<i32> {
        let text = std::str::from_utf8(text).ok()?;
        let (_, rest) = text.split_once(PID_KEY)?;
        let (number, _) = rest.trim_start().split_once([',', '\n', '}'])?;
        number.trim_end().parse().ok().filter(|number| *number > 1)
    }

    #[cfg(test)]
    mod tests {
        use super::parse_pid;

        #[test]
        fn pid_is_read_once_it_is_complete() {
            let info = "{\n    \"child-pid\": 1234,\n    \"net-namespace\": 4026532\n}\n";
            let whole = info.find(',').unwrap() + 1;
            for end in 0..info.len() {
                let expected = (end >= whole).then_some(1234);
                assert_eq!(parse_pid(&info.as_bytes()[..end]), expected, "{end}");
            }
            for other in [
                "{\"child-pid\": 1}",
                "{\"child-pid\": -5}",
                "{\"child-pid\": x}",
                "{}",
            ] {
                assert_eq!(parse_pid(other.as_bytes()), None, "{other}");
            }
        }
    }
}

#[cfg(not(target_os = "linux"))]
mod unknown {
    //! Namespaces exist only on Linux.

    use std::io::PipeReader;

    use rustix::process::Pid;

    use crate::processes::Member;

    pub(crate) enum SandboxInit {}

    impl SandboxInit {
        pub(crate) fn wait_for(_bubblewrap: Pid, _info: &PipeReader) -> Option<Self> {
            None
        }
        pub(crate) fn member(&self) -> Member {
            match *self {}
        }
        pub(crate) fn end(&self) -> bool {
            match *self {}
        }
    }
}
