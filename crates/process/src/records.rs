//! Records of our processes on disk, with which the next process of the host finds processes that this one left.
//!
//! A process is recorded by PID, start time and boot ID, which identify it permanently: a later process with the same PID does not match. None of
//! these can be changed by the process. There is one file for each running program; it is deleted when the program has ended.

use std::collections::HashSet;
use std::fmt::Write as _;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use rustix::process::Pid;

use crate::kill::kill_all;
use crate::processes::{Member, Table};

/// First word of each file; the second is the boot ID.
const FORMAT: &str = "windlass-processes-1";
/// Extension of the files.
const EXTENSION: &str = "processes";
/// Maximum size of a file that is read.
const MAX_BYTES: u64 = 1024 * 1024;

/// A directory in which the processes of running programs are recorded.
#[derive(Debug, Clone)]
pub struct Records {
    directory: PathBuf,
}

/// Processes that a previous process of the host left running.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Leftovers {
    /// Number of processes that were ended.
    pub ended: usize,
    /// Whether all of them are gone.
    pub all_ended: bool,
    /// Files that cannot be read and were left in place: the processes they record may still run.
    pub unreadable: Vec<PathBuf>,
}

impl Records {
    /// Opens a directory and creates it if it does not exist. Only one process at a time may use it.
    pub fn open(directory: impl Into<PathBuf>) -> io::Result<Self> {
        use std::os::unix::fs::DirBuilderExt;

        let directory = directory.into();
        let mut builder = fs::DirBuilder::new();
        builder.recursive(true).mode(0o700).create(&directory)?;
        Ok(Self { directory })
    }

    /// Ends processes that a previous process recorded and left running. Call it at startup, before any program is started.
    pub fn end_leftovers(&self) -> io::Result<Leftovers> {
        let boot = boot()?;
        let mut left = Leftovers {
            all_ended: true,
            ..Leftovers::default()
        };
        for entry in fs::read_dir(&self.directory)? {
            let path = entry?.path();
            if path.extension().is_none_or(|ending| ending != EXTENSION) {
                continue;
            }
            let Some((recorded_boot, processes)) = read(&path) else {
                left.unreadable.push(path);
                continue;
            };
            // Processes recorded in another boot ended with that boot.
            if recorded_boot == boot {
                let (ended, all_ended) = end(processes);
                left.ended += ended;
                if !all_ended {
                    left.all_ended = false;
                    continue;
                }
            }
            fs::remove_file(&path)?;
        }
        Ok(left)
    }

    /// Creates the record of one program.
    pub(crate) fn begin(&self) -> io::Result<ProcessRecord> {
        let name = format!("{}.{EXTENSION}", uuid::Uuid::now_v7().simple());
        Ok(ProcessRecord {
            path: self.directory.join(name),
            boot: boot()?,
            written: Vec::new(),
        })
    }
}

/// The record of a running program.
pub(crate) struct ProcessRecord {
    path: PathBuf,
    boot: String,
    written: Vec<Member>,
}

impl ProcessRecord {
    /// Records the processes, if they have changed.
    pub(crate) fn write(&mut self, members: &[Member]) -> io::Result<()> {
        if self.written == members {
            return Ok(());
        }
        let mut text = format!("{FORMAT} {}\n", self.boot);
        for member in members {
            let _ = writeln!(text, "{} {}", member.number(), member.start);
        }
        // No fsync: a killed host loses nothing that the system has buffered, and a system crash also ends the processes.
        let fresh = self.path.with_extension("new");
        fs::write(&fresh, text)?;
        fs::rename(&fresh, &self.path)?;
        self.written = members.to_vec();
        Ok(())
    }

    /// Adds one process to those already recorded.
    pub(crate) fn add(&mut self, member: Member) -> io::Result<()> {
        let mut members = self.written.clone();
        if !members.contains(&member) {
            members.push(member);
        }
        self.write(&members)
    }

    /// Deletes the record of a program of which no process is left. If that fails, the next process of the host checks it again.
    pub(crate) fn forget(self) {
        let _ = fs::remove_file(&self.path);
    }
}

/// Reads the boot ID and the processes of a file; `None` if any part of it is not in the format that we write.
fn read(path: &Path) -> Option<(String, Vec<(Pid, u64)>)> {
    let metadata = path.symlink_metadata().ok()?;
    if !metadata.is_file() || metadata.len() > MAX_BYTES {
        return None;
    }
    let text = fs::read_to_string(path).ok()?;
    let mut lines = text.lines();
    let boot = lines.next()?.strip_prefix(FORMAT)?.strip_prefix(' ')?;
    let process = |line: &str| {
        let (pid, start) = line.split_once(' ')?;
        let pid = pid.parse().ok().filter(|pid| *pid > 1)?;
        Some((Pid::from_raw(pid)?, start.parse().ok()?))
    };
    Some((boot.to_owned(), lines.map(process).collect::<Option<_>>()?))
}

/// Ends these processes and their descendants.
fn end(processes: Vec<(Pid, u64)>) -> (usize, bool) {
    let is_recorded = |member: &Member| processes.contains(&(member.pid, member.start));
    // A process that was seen once stays a target, even after the parent that led to it is gone.
    let mut seen: Vec<Member> = Vec::new();
    let mut find = || {
        let table = Table::read();
        let living = table.living().into_iter();
        let close = living.filter(|member| is_recorded(member) || seen.contains(member));
        let close: HashSet<i32> = close.map(|member| member.number()).collect();
        let found = table.with_descendants(close);
        for member in &found {
            if !seen.contains(member) {
                seen.push(*member);
            }
        }
        found
    };
    let all_ended = kill_all(&mut find);
    (seen.len(), all_ended)
}

/// Returns the ID of this boot of the machine.
fn boot() -> io::Result<String> {
    #[cfg(target_os = "linux")]
    {
        let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id")?;
        Ok(boot.trim().to_owned())
    }
    #[cfg(not(target_os = "linux"))]
    Ok("unknown".to_owned())
}
