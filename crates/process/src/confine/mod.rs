//! Confinement of commands.

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

#[cfg(target_os = "linux")]
use ::landlock::Scope;
use rustix::process::Pid;
use serde::{Deserialize, Serialize};

use crate::network::Network;
use crate::parent_death_guard::GuardScope;
use crate::protected_paths::Hidden;
use crate::proxied::LAUNCHER_PATH;

#[cfg(target_os = "linux")]
pub(crate) use domain::Domain;

/// Landlock exists only on Linux.
#[cfg(not(target_os = "linux"))]
pub(crate) struct Domain;

#[cfg(not(target_os = "linux"))]
impl Domain {
    pub(crate) fn members_inside(
        &self,
        _members: &[crate::processes::Member],
    ) -> std::collections::HashSet<i32> {
        std::collections::HashSet::new()
    }
    pub(crate) fn kill(&self) {}
}

/// A method of confining commands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Confinement {
    /// A sandbox of namespaces. The host's files are read-only except for the environment's root; `/tmp` and `/run` are private. The sandbox sees
    /// only its own processes, and it has no network if the policy forbids it. All its processes end with it.
    Bubblewrap,
    /// Landlock and seccomp rules of the Linux kernel. The host's files are read-only except for the environment's root and a private directory for
    /// temporary files. Processes cannot signal others, and cannot open sockets if the policy forbids the network. No process can leave the rules, so
    /// they identify the program's processes. If the policy shares the network, sockets of local services are reachable too.
    Landlock,
    /// No confinement: commands have all rights of the host's process, and no rule about the network or hidden paths is enforced. Used only if an
    /// environment's policy allows it.
    Unconfined,
}

/// Returns the writable directories in which Landlock forbids creating, renaming and removing entries, because a hidden path is below them.
pub fn closed_by_landlock(bounds: &SandboxBounds) -> Vec<PathBuf> {
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

/// A program's access rights.
#[derive(Debug, Clone)]
pub struct SandboxBounds {
    /// Directory in which the program works, with links resolved.
    pub root: PathBuf,
    /// Working directory at start.
    pub cwd: PathBuf,
    /// Whether the program may change files in the root.
    pub is_writable: bool,
    /// Writable files and directories outside the root, such as a program's own settings, with links resolved. A path listed here is visible even if
    /// it, or a directory above it, is hidden; hidden paths inside it stay hidden. None of them contains the root.
    pub also_writable: Vec<PathBuf>,
    /// Files and directories that are readable although they, or directories above them, are hidden; links resolved. Hidden paths inside them stay
    /// hidden.
    pub also_readable: Vec<PathBuf>,
    /// Paths that the program cannot see. If the root is below one of them, the root is still visible.
    pub hidden: Arc<Hidden>,
    /// Directories inside the root that the program cannot move, with links resolved. Landlock ignores them, because its rules apply to handles.
    pub pinned: Vec<PathBuf>,
    /// The program's network access.
    pub network: Network,
    /// The program's home, if that is a hidden directory: bubblewrap mounts an empty writable directory there.
    pub private_home: Option<PathBuf>,
    /// Whether the program may open pseudo-terminals under Landlock, which also gives it access to the user's other terminals. Bubblewrap always
    /// provides private terminals.
    pub has_terminals: bool,
    /// A private directory for temporary files, if the sandbox provides none.
    pub scratch: Option<PathBuf>,
}

impl SandboxBounds {
    /// Everything in a directory is writable, nothing is hidden, and there is no network.
    #[must_use]
    pub fn writable(root: impl Into<PathBuf>) -> Self {
        let root = root.into();
        Self {
            cwd: root.clone(),
            root,
            is_writable: true,
            also_writable: Vec::new(),
            also_readable: Vec::new(),
            hidden: Arc::default(),
            pinned: Vec::new(),
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
    /// Pipe on which bubblewrap reports the PID of its sandbox's init.
    pub(crate) info: Option<PipeReader>,
}

impl Confinement {
    /// Returns the display name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Bubblewrap => "bubblewrap",
            Self::Landlock => "landlock",
            Self::Unconfined => "none",
        }
    }

    /// Returns whether this method works on this machine, tested by running it once. Always false for `Unconfined`.
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

    /// Returns whether no process of a program can outlive it on this machine, however it forks.
    #[must_use]
    pub fn ends_every_process(self) -> bool {
        match self {
            Self::Bubblewrap => true,
            #[cfg(target_os = "linux")]
            Self::Landlock => landlock::can_confine_signals(),
            #[cfg(not(target_os = "linux"))]
            Self::Landlock => false,
            Self::Unconfined => false,
        }
    }

    /// Returns the gaps of this method on this machine, each worded to complete "commands can …".
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
        landlock::can_confine_sockets() && !is_privileged
    }

    /// Landlock exists only on Linux.
    #[cfg(not(target_os = "linux"))]
    fn confines_abstract_sockets(self) -> bool {
        false
    }

    /// Returns whether a command needs a temporary directory on the host.
    #[must_use]
    pub fn needs_scratch(self) -> bool {
        self != Self::Bubblewrap
    }

    /// Builds the command that runs a program with these variables; the caller appends the program's arguments. The launcher is mounted at its fixed
    /// path, even if its own path is hidden.
    pub(crate) fn sandboxed_command(
        self,
        bounds: &SandboxBounds,
        launcher: Option<&Path>,
        program: &Path,
        variables: &BTreeMap<OsString, OsString>,
    ) -> io::Result<Prepared> {
        let mut prepared = match self {
            Self::Bubblewrap => {
                // Bubblewrap itself runs outside the sandbox, so it must not receive the program's variables: one of them could load a library. In
                // the argument list, every process could read them.
                let variables = bubblewrap::variables(variables)?;
                let calls = bubblewrap::system_calls(bounds.network)?;
                let (info, info_writer) = pipe()?;
                let info_writer = OwnedFd::from(info_writer);
                let mut command = Command::new(bubblewrap::program_or_usual());
                command.env_clear().args(bubblewrap::arguments(bounds));
                if let Some(launcher) = launcher {
                    command.arg("--ro-bind").arg(launcher).arg(LAUNCHER_PATH);
                }
                command.arg("--seccomp").arg(calls.as_raw_fd().to_string());
                command.arg("--args").arg(variables.as_raw_fd().to_string());
                command
                    .arg("--info-fd")
                    .arg(info_writer.as_raw_fd().to_string());
                command.arg("--").arg(program).current_dir("/");
                Prepared {
                    command,
                    inherited: vec![variables, calls, info_writer],
                    info: Some(info),
                }
            }
            Self::Landlock | Self::Unconfined => {
                let mut command = Command::new(program);
                command.env_clear().envs(variables);
                command.current_dir(&bounds.cwd);
                Prepared {
                    command,
                    inherited: Vec::new(),
                    info: None,
                }
            }
        };
        prepared.command.process_group(0);
        Ok(prepared)
    }

    /// Puts the calling thread into a domain that confines signals, if the method has one.
    pub(crate) fn enter_guard_domain(self) -> Result<GuardScope, String> {
        match self {
            #[cfg(target_os = "linux")]
            Self::Landlock if landlock::can_confine_signals() => {
                landlock::enter_scope(Scope::Signal)?;
                Ok(GuardScope::Domain)
            }
            _ => Ok(GuardScope::Unscoped),
        }
    }

    /// Permanently confines the calling thread and the programs it starts. `root` is a handle of the bounds' root; `outsider` is a process of the
    /// same user that is not confined.
    pub(crate) fn confine_thread(
        self,
        bounds: &SandboxBounds,
        root: &OwnedFd,
        outsider: Option<Pid>,
    ) -> Result<Option<Domain>, String> {
        match self {
            #[cfg(target_os = "linux")]
            Self::Landlock => {
                landlock::confine_thread(bounds, root.as_fd())?;
                system_calls::confine_thread(bounds.network)?;
                let domain = Domain::for_current_thread(outsider);
                domain.map(Some).map_err(|error| error.to_string())
            }
            #[cfg(not(target_os = "linux"))]
            Self::Landlock => Err("landlock is a part of Linux".to_owned()),
            // A setuid bubblewrap would not get the privileges it needs to create the sandbox.
            #[cfg(target_os = "linux")]
            Self::Bubblewrap
                if bounds.network == Network::Inherit
                    && !bubblewrap::needs_privileges()
                    && landlock::can_confine_sockets() =>
            {
                landlock::enter_scope(Scope::AbstractUnixSocket).map(|()| None)
            }
            Self::Bubblewrap | Self::Unconfined => {
                let _ = (bounds, root, outsider);
                Ok(None)
            }
        }
    }
}
