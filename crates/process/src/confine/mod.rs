//! Keeping commands from what is not theirs.

mod bubblewrap;
#[cfg(target_os = "linux")]
mod domain;
#[cfg(target_os = "linux")]
mod landlock;
#[cfg(target_os = "linux")]
mod system_calls;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::{self, PipeReader, pipe};
#[cfg(target_os = "linux")]
use std::os::fd::AsFd;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use rustix::process::Pid;
use serde::{Deserialize, Serialize};

use crate::hidden::Hidden;
use crate::lifeline::Around;
use crate::network::Network;
use crate::proxied::LAUNCHER_PLACE;

#[cfg(target_os = "linux")]
pub(crate) use domain::Domain;

/// Landlock is a part of Linux; elsewhere there are no rules to ask.
#[cfg(not(target_os = "linux"))]
pub(crate) struct Domain;

#[cfg(not(target_os = "linux"))]
impl Domain {
    pub(crate) fn holds(
        &self,
        _members: &[crate::processes::Member],
    ) -> std::collections::HashSet<i32> {
        std::collections::HashSet::new()
    }
    pub(crate) fn kill(&self) {}
}

/// A way to keep commands from what is not theirs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Confinement {
    /// A sandbox of namespaces: the host's files read-only but for the environment's root, its own `/tmp` and `/run`, no
    /// processes but its own, and no network where the policy says so. All its processes end with it.
    Bubblewrap,
    /// Rules of the Linux kernel: the host's files read-only but for the environment's root and a directory of its own for
    /// temporary files. No signals to others, and no sockets at all where the policy forbids the network. Its processes are
    /// known by the rules themselves, which none can shed. Where the policy shares the network, sockets of services on this
    /// machine can be reached too.
    Landlock,
    /// Nothing: commands have all rights of the host's process, and no rule about the network or hidden paths holds. Only
    /// where an environment's policy allows it.
    Unconfined,
}

/// Returns the directories inside of what the bounds let be changed in which landlock lets nothing be made, renamed or removed,
/// because something hidden lies below them.
pub fn closed_by_landlock(bounds: &Bounds) -> Vec<PathBuf> {
    let root = bounds.is_writable.then_some(&bounds.root);
    let mut above: Vec<_> = root
        .into_iter()
        .chain(&bounds.also_writable)
        .flat_map(|top| {
            let inside = bounds.hidden.places().iter();
            let inside = inside.filter(move |hidden| hidden.starts_with(top));
            let above = inside.flat_map(|hidden| hidden.ancestors().skip(1));
            above.filter(move |above| above.starts_with(top))
        })
        .map(Path::to_owned)
        .collect();
    above.sort();
    above.dedup();
    above
}

/// What a program may touch.
#[derive(Debug, Clone)]
pub struct Bounds {
    /// What it works in; links resolved.
    pub root: PathBuf,
    /// Where it starts.
    pub cwd: PathBuf,
    /// Whether it may change what is in the root.
    pub is_writable: bool,
    /// Files and directories beside the root that it may change, such as a program's own settings; links resolved. One may be
    /// hidden, or lie below what is, and is seen all the same; what is hidden inside of it stays so. None lies above the root.
    pub also_writable: Vec<PathBuf>,
    /// Files and directories that it sees although they are hidden, or lie below what is; links resolved. What is hidden inside
    /// of them stays so.
    pub also_seen: Vec<PathBuf>,
    /// What it cannot see. Where the root lies below it, the root is seen all the same.
    pub hidden: Arc<Hidden>,
    /// Directories inside of the root that it cannot move; links resolved. Landlock needs none: it goes by handles.
    pub held: Vec<PathBuf>,
    /// What it may reach over the network.
    pub network: Network,
    /// Its own home, where that is a hidden directory: bubblewrap puts an empty one there that it may change.
    pub private_home: Option<PathBuf>,
    /// Whether it may make pseudo-terminals under Landlock, which then lets it read and write the user's other terminals too.
    /// Bubblewrap has terminals of its own, always.
    pub has_terminals: bool,
    /// A directory of its own, where the sandbox has none.
    pub scratch: Option<PathBuf>,
}

impl Bounds {
    /// A directory in which everything may be changed, with nothing hidden and no network.
    #[must_use]
    pub fn of(root: impl Into<PathBuf>) -> Self {
        let root = root.into();
        Self {
            cwd: root.clone(),
            root,
            is_writable: true,
            also_writable: Vec::new(),
            also_seen: Vec::new(),
            hidden: Arc::default(),
            held: Vec::new(),
            network: Network::None,
            private_home: None,
            has_terminals: false,
            scratch: None,
        }
    }
}

/// A command, with the open files that it inherits.
pub(crate) struct Prepared {
    pub(crate) command: Command,
    pub(crate) inherited: Vec<OwnedFd>,
    /// Where bubblewrap says who the init of its sandbox is.
    pub(crate) said: Option<PipeReader>,
}

impl Confinement {
    /// Returns the name by which people know it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Bubblewrap => "bubblewrap",
            Self::Landlock => "landlock",
            Self::Unconfined => "none",
        }
    }

    /// Tells whether this way works on this machine, by trying it once. Being unconfined is never found by looking.
    #[must_use]
    pub fn works_here(self) -> bool {
        match self {
            Self::Bubblewrap => bubblewrap::program().is_some(),
            #[cfg(target_os = "linux")]
            Self::Landlock => landlock::works_here(),
            #[cfg(not(target_os = "linux"))]
            Self::Landlock => false,
            Self::Unconfined => false,
        }
    }

    /// Tells whether no process of a program can outlive it on this machine, however it forks.
    #[must_use]
    pub fn ends_every_process(self) -> bool {
        match self {
            Self::Bubblewrap => true,
            #[cfg(target_os = "linux")]
            Self::Landlock => landlock::signals_stay_inside(),
            #[cfg(not(target_os = "linux"))]
            Self::Landlock => false,
            Self::Unconfined => false,
        }
    }

    /// Returns what commands can do on this machine although they are confined in this way, each as the end of "commands can …".
    #[must_use]
    pub fn gaps(self) -> Vec<&'static str> {
        let mut gaps = match self {
            Self::Bubblewrap => Vec::new(),
            Self::Landlock => vec![
                "change modes and times of the user's files",
                "connect to sockets by their path",
                "see which programs run and watch directories for changes",
            ],
            Self::Unconfined => vec!["do everything that the host can"],
        };
        if self == Self::Landlock && !self.ends_every_process() {
            gaps.push("outlive the call that started them by forking without end");
            gaps.push("signal other programs of the user");
        }
        if !self.confines_abstract_sockets() {
            gaps.push(
                "connect to abstract sockets of the user's programs where they have a network",
            );
        }
        gaps
    }

    #[cfg(target_os = "linux")]
    fn confines_abstract_sockets(self) -> bool {
        let is_privileged = self == Self::Bubblewrap && bubblewrap::needs_privileges();
        landlock::sockets_stay_inside() && !is_privileged
    }

    /// Landlock is a part of Linux.
    #[cfg(not(target_os = "linux"))]
    fn confines_abstract_sockets(self) -> bool {
        false
    }

    /// Tells whether a command needs a temporary directory of the host's.
    #[must_use]
    pub fn needs_scratch(self) -> bool {
        self != Self::Bubblewrap
    }

    /// Makes the command that runs a program with these variables; the program's own arguments are still to be added. The launcher is
    /// shown in its place, whatever is hidden.
    pub(crate) fn command(
        self,
        bounds: &Bounds,
        launcher: Option<&Path>,
        program: &Path,
        variables: &BTreeMap<OsString, OsString>,
    ) -> io::Result<Prepared> {
        let mut prepared = match self {
            Self::Bubblewrap => {
                // It runs outside of what it makes, so no variable of the program's may be its own: one of them can load a
                // library. In the list of arguments everybody could read them.
                let variables = bubblewrap::variables(variables)?;
                let calls = bubblewrap::system_calls(bounds.network)?;
                let (said, saying) = pipe()?;
                let saying = OwnedFd::from(saying);
                let mut command = Command::new(bubblewrap::program_or_usual());
                command.env_clear().args(bubblewrap::arguments(bounds));
                if let Some(launcher) = launcher {
                    command.arg("--ro-bind").arg(launcher).arg(LAUNCHER_PLACE);
                }
                command.arg("--seccomp").arg(calls.as_raw_fd().to_string());
                command.arg("--args").arg(variables.as_raw_fd().to_string());
                command.arg("--info-fd").arg(saying.as_raw_fd().to_string());
                command.arg("--").arg(program).current_dir("/");
                Prepared {
                    command,
                    inherited: vec![variables, calls, saying],
                    said: Some(said),
                }
            }
            Self::Landlock | Self::Unconfined => {
                let mut command = Command::new(program);
                command.env_clear().envs(variables);
                command.current_dir(&bounds.cwd);
                Prepared {
                    command,
                    inherited: Vec::new(),
                    said: None,
                }
            }
        };
        prepared.command.process_group(0);
        Ok(prepared)
    }

    /// Puts a domain around the calling thread that keeps its signals inside, if there is such a thing.
    pub(crate) fn surround_thread(self) -> Result<Around, String> {
        match self {
            #[cfg(target_os = "linux")]
            Self::Landlock if landlock::signals_stay_inside() => {
                landlock::keep_signals_inside()?;
                Ok(Around::Domain)
            }
            _ => Ok(Around::Nothing),
        }
    }

    /// Confines the calling thread, for good, and with it what it starts. `root` is a handle of the bounds' root, `outsider` a
    /// process of the same user that is not confined with it.
    pub(crate) fn enter(
        self,
        bounds: &Bounds,
        root: &OwnedFd,
        outsider: Option<Pid>,
    ) -> Result<Option<Domain>, String> {
        match self {
            #[cfg(target_os = "linux")]
            Self::Landlock => {
                landlock::confine_thread(bounds, root.as_fd())?;
                system_calls::confine_thread(bounds.network)?;
                let domain = Domain::of_this_thread(outsider);
                domain.map(Some).map_err(|error| error.to_string())
            }
            #[cfg(not(target_os = "linux"))]
            Self::Landlock => Err("landlock is a part of Linux".to_owned()),
            // A sandbox that needs privileges to be made would not get them any more.
            #[cfg(target_os = "linux")]
            Self::Bubblewrap
                if bounds.network == Network::Inherit
                    && !bubblewrap::needs_privileges()
                    && landlock::sockets_stay_inside() =>
            {
                landlock::keep_sockets_inside().map(|()| None)
            }
            Self::Bubblewrap | Self::Unconfined => {
                let _ = (bounds, root, outsider);
                Ok(None)
            }
        }
    }
}
