//! Tools of Windlass that touch the world: files and a shell, inside of an *environment*, and pages of the web.
//!
//! An [`Environment`] is a named root directory with a [`Policy`]. A registry of them, [`Environments`], is shared by the
//! host and the tools: the host adds and removes, the tools look up where their turn works. A turn says so with a
//! [`TurnEnvironment`](windlass_core::turn_environment::TurnEnvironment) in its input's request, which is recorded with the
//! input; one that says nothing works in the root of the default environment.
//!
//! ```
//! use windlass_core::capabilities::CapabilityRegistry;
//! use windlass_tools::{Environment, Environments, Policy, ShellSettings, register};
//!
//! # let directory = tempfile::tempdir().unwrap();
//! # let root = directory.path();
//! let environments = Environments::with_default(Environment::new("local", root, Policy::default())?);
//! let mut capabilities = CapabilityRegistry::new();
//! register(&mut capabilities, &environments, ShellSettings::default());
//! // Harnesses, agents and sessions now enable `files` and `shell` by name.
//! # Ok::<(), windlass_tools::EnvironmentError>(())
//! ```
//!
//! | capability | tools | effect | approval |
//! | --- | --- | --- | --- |
//! | `files` | `read`, `list`, `glob`, `grep` | pure: run again after a crash | none |
//! | `files` | `write` | idempotent: run again after a crash | asked for |
//! | `files` | `edit` | at most once | asked for |
//! | `shell` | `shell` | at most once | asked for |
//! | `shell` | `shell_output`, where outputs are kept | pure: run again after a crash | none |
//! | `shell` | `shell_stop`, where outputs are kept | idempotent: run again after a crash | none |
//! | `repository` | `activate_skill` | pure: run again after a crash | none |
//! | `web_fetch` | `web_fetch` | idempotent: run again after a crash | asked for |
//!
//! `web_fetch` needs the feature `web`, a platform whose egress service is a `WebEgress`, and is registered by itself (`WebCapability`).
//!
//! Calls that change something run one after the other; calls that look run beside each other. Whether somebody is asked
//! is set per capability with the configuration `{"approval": "ask"}` (the default) or `{"approval": "never"}`, and a turn whose
//! request approves everything is not asked either.
//!
//! # What holds
//!
//! - **No path leaves the root.** Paths are resolved below a handle of the root; `..`, absolute paths and links that lead
//!   out fail with `path_outside_environment`, also when a name is swapped for a link midway.
//! - **What the host keeps to itself stays out of reach,** whatever the root: [`Environments::hide`] names it once, for files
//!   tools and commands alike.
//! - **Files are whole.** A write makes a new file and renames it. Two edits of one file never lose one another, and what
//!   an editor of the user changed meanwhile is not overwritten.
//! - **Commands are confined** by bubblewrap where it works, else by landlock, and else refused unless the policy allows
//!   them to run unconfined. The root is all that they can write; their variables are an allow-list; they have no input.
//! - **The process tree ends with the call:** when it ends, when it is cancelled, when its time is over, and when the
//!   process of the host dies. See [`Confinement`] for what each way can promise. [`end_leftovers`] is the second net,
//!   for the start of a host, and [`Records`] the third: it finds also what has thrown away the mark.
//! - **Pages come from the public internet** and from what the operator opens, judged by the address that is connected to, on every redirect.
//! - **What is too long to show can be kept,** within limits, with [`Environments::keep_outputs`]; only then do commands run in the background.
//! - **Limits everywhere,** and a remark in the result that says what was left out.

mod approval;
mod checkpoint;
mod environments;
mod files;
mod host_access;
#[cfg(feature = "mcp")]
pub mod mcp;
mod outputs;
#[cfg(feature = "web")]
mod proxy;
mod repository;
mod secrets;
mod shell;
mod tool;
#[cfg(feature = "web")]
mod web;
mod workspace;

use windlass_core::capabilities::CapabilityRegistry;

pub use approval::Approval;
pub use checkpoint::{
    Changes, Changing, ChangingFiles, ChangingTurn, CheckpointError, CheckpointId,
    CheckpointLimits, Checkpoints, CutOffCalls, Restored, UndoneTurn,
};
pub use environments::{Environment, EnvironmentError, Environments, Policy, Unconfined};
pub use files::FilesCapability;
pub use host_access::TurnHostAccess;
pub use outputs::{OutputLimits, Outputs};
#[cfg(feature = "web")]
pub use proxy::{OpenHosts, ProxyLimits, RunningProxy, ShellProxy};
pub use repository::{FoundSkill, FoundSkills, RepositoryCapability};
pub use shell::{
    ALLOWED_VARIABLES, HomeAccess, HomePathError, Look, LookError, LookOutput, PlaceRefused,
    SHARED_HOME_DIRECTORIES, ShellCapability, ShellSettings, UserHome,
};
#[cfg(feature = "web")]
pub use web::{InvalidWebRule, Resolver, WebCapability, WebEgress, WebRules, WebSettings};
pub use windlass_process::{
    Confinement, Launcher, Network, Records, become_proxied, end_leftovers,
};
pub use workspace::{FileError, ResolvedWorkspace};

/// Adds the capabilities `files`, `shell` and `repository`. Harnesses, agents and sessions enable them by name.
pub fn register(
    registry: &mut CapabilityRegistry,
    environments: &Environments,
    shell: ShellSettings,
) {
    registry.register(FilesCapability::new(environments.clone()));
    registry.register(ShellCapability::new(environments.clone(), shell));
    registry.register(RepositoryCapability::new(environments.clone()));
}

/// The programs of these pages are compiled and run with the documentation's tests.
#[cfg(all(doctest, feature = "mcp"))]
#[doc = include_str!("../../../docs/mcp.md")]
struct McpDoctests;

#[cfg(all(doctest, feature = "web"))]
#[doc = include_str!("../../../docs/web.md")]
struct WebDoctests;
