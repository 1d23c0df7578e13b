//! Keeping commands from what is not theirs.

mod bubblewrap;
#[cfg(target_os = "linux")]
mod landlock;
#[cfg(target_os = "linux")]
mod sockets;

#[cfg(target_os = "linux")]
use std::os::fd::AsFd;
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::environments::Network;
use crate::hidden::Hidden;

/// A way to keep commands from what is not theirs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Confinement {
    /// A sandbox of namespaces: the host's files read-only but for the environment's root, its own `/tmp` and `/run`, no
    /// processes but its own, and no network where the policy says so. All its processes end with it.
    Bubblewrap,
    /// Rules of the Linux kernel: the host's files read-only but for the environment's root and a directory of its own for
    /// temporary files. No signals to others, and no sockets at all where the policy forbids the network. Its processes are
    /// found by group, descent and a mark; one that takes care to shed all three could outlive the call. Where the policy
    /// shares the network, sockets of services on this machine can be reached too.
    Landlock,
    /// Nothing: commands have all rights of the host's process, and no rule about the network or hidden paths holds. Only
    /// where an environment's policy allows it.
    Unconfined,
}

/// Returns the directories inside of the bounds' root in which landlock lets nothing be made, renamed or removed, because
/// something hidden lies below them.
pub(super) fn closed_by_landlock(bounds: &Bounds) -> Vec<PathBuf> {
    let inside = bounds.hidden.places().iter();
    let inside = inside.filter(|hidden| bounds.is_writable && hidden.starts_with(&bounds.root));
    let above = inside.flat_map(|hidden| hidden.ancestors().skip(1));
    let mut above: Vec<_> = above
        .filter(|above| above.starts_with(&bounds.root))
        .map(Path::to_owned)
        .collect();
    above.sort();
    above.dedup();
    above
}

/// What a command may touch.
#[derive(Debug, Clone)]
pub(super) struct Bounds {
    pub(super) root: PathBuf,
    pub(super) cwd: PathBuf,
    pub(super) is_writable: bool,
    /// What it cannot see; none of it lies above the root.
    pub(super) hidden: Arc<Hidden>,
    /// Directories inside of the root that it cannot move; links resolved. Landlock needs none: it goes by handles.
    pub(super) held: Vec<PathBuf>,
    pub(super) network: Network,
    /// A directory of its own, where the sandbox has none.
    pub(super) scratch: Option<PathBuf>,
}

impl Confinement {
    pub(super) fn name(self) -> &'static str {
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

    /// Tells whether a command needs a temporary directory of the host's.
    pub(super) fn needs_scratch(self) -> bool {
        self != Self::Bubblewrap
    }

    /// Makes the command that runs a shell; the shell's own arguments are still to be added.
    pub(super) fn command(self, bounds: &Bounds, shell: &Path) -> Command {
        let mut command = match self {
            Self::Bubblewrap => {
                let mut command = Command::new(bubblewrap::program_or_usual());
                command.args(bubblewrap::arguments(bounds));
                command.arg("--").arg(shell).current_dir("/");
                command
            }
            Self::Landlock | Self::Unconfined => {
                let mut command = Command::new(shell);
                command.current_dir(&bounds.cwd);
                command
            }
        };
        command.process_group(0);
        command
    }

    /// Returns what confines the thread that starts the command. `root` is a handle of the bounds' root.
    pub(super) fn of_thread(
        self,
        bounds: Bounds,
        root: OwnedFd,
    ) -> Box<dyn FnOnce() -> Result<(), String> + Send> {
        match self {
            #[cfg(target_os = "linux")]
            Self::Landlock => Box::new(move || {
                landlock::confine_thread(&bounds, root.as_fd())?;
                match bounds.network {
                    Network::None => sockets::forbid_in_thread(),
                    Network::Inherit => Ok(()),
                }
            }),
            #[cfg(not(target_os = "linux"))]
            Self::Landlock => Box::new(|| Err("landlock is a part of Linux".to_owned())),
            Self::Bubblewrap | Self::Unconfined => {
                drop((bounds, root));
                Box::new(|| Ok(()))
            }
        }
    }
}
