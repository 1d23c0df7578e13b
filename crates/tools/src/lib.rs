//! Tools of Windlass with side effects: files and a shell in an *environment*, and pages of the web.
//!
//! An [`Environment`] is a named root directory with a [`Policy`]. The host and the tools share a registry of them,
//! [`Environments`]: the host adds and removes environments, and the tools look up the one of their turn. A turn names its
//! environment with a [`TurnEnvironment`](windlass_core::turn_environment::TurnEnvironment) in its input's request, which is
//! recorded with the input. A turn that names none works in the root of the default environment.
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
//! | `files` | `write` | idempotent: run again after a crash | required |
//! | `files` | `edit` | at most once | required |
//! | `shell` | `shell` | at most once | required |
//! | `shell` | `shell_output`, if outputs are stored | pure: run again after a crash | none |
//! | `shell` | `shell_stop`, if outputs are stored | idempotent: run again after a crash | none |
//! | `repository` | `activate_skill` | pure: run again after a crash | none |
//! | `web_fetch` | `web_fetch` | idempotent: run again after a crash | required |
//!
//! `web_fetch` needs the feature `web` and a platform whose egress service is a `WebEgress`. It is registered separately (`WebCapability`).
//!
//! Calls that change something run one after the other; read-only calls run in parallel. The configuration `{"approval": "ask"}`
//! (the default) or `{"approval": "never"}` of a capability sets whether its calls need approval. A turn whose request approves
//! everything needs none.
//!
//! # Guarantees
//!
//! - **No path leaves the root.** Paths are resolved below a handle of the root; `..`, absolute paths and links that lead
//!   out fail with `path_outside_environment`, even if a name is replaced by a link during the call.
//! - **Hidden paths of the host are out of reach,** whatever the root: [`Environments::hide`] applies to file tools and
//!   commands alike.
//! - **Files are written atomically.** A write creates a new file and renames it. Concurrent edits of one file are not lost, and
//!   a change by the user's editor is not overwritten.
//! - **Commands are confined** by bubblewrap if it works, else by Landlock, and else refused unless the policy allows
//!   unconfined commands. They can write only to the root; their variables are an allowlist; they have no input.
//! - **The process tree ends with the call:** when the command exits, is cancelled or exceeds its time limit, and when the
//!   process of the host dies. See [`Confinement`] for the guarantees of each method. At startup, a host ends processes that
//!   nevertheless remain with [`end_leftovers`], and with [`Records`] also those that removed their mark.
//! - **Pages come from the public internet** and from hosts that the operator opens. Every redirect is checked by the address of the connection.
//! - **Outputs that are too long to show can be stored,** within limits, with [`Environments::enable_outputs`]; only then do commands run in the background.
//! - **Everything is limited,** and a remark in the result lists what was omitted.

mod approval;
mod checkpoint;
mod environments;
mod files;
mod git;
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
    CheckpointError, CheckpointId, CheckpointLimits, CheckpointedCall, CheckpointedTurn,
    CheckpointedWork, Checkpoints, CutOffCalls, RestoreReport, TurnToUndo,
};
pub use environments::{Environment, EnvironmentError, Environments, Policy, Unconfined};
pub use files::FilesCapability;
pub use git::{Git, GitError};
pub use host_access::TurnHostAccess;
pub use outputs::{OutputLimits, Outputs};
#[cfg(feature = "web")]
pub use proxy::{OpenHosts, ProxyLimits, RunningProxy, ShellProxy};
pub use repository::{RepositoryCapability, RepositorySkill, RepositorySkills};
pub use shell::{
    ALLOWED_VARIABLES, HomeAccess, HomePathError, HostCommand, HostCommandError, HostCommandOutput,
    SHARED_HOME_DIRECTORIES, SandboxDenied, ShellCapability, ShellSettings, UserHome,
};
#[cfg(feature = "web")]
pub use web::{InvalidWebRule, Resolver, WebCapability, WebEgress, WebRules, WebSettings};
pub use windlass_process::{
    Confinement, Launcher, Network, Records, become_proxied, end_leftovers,
};
pub use workspace::{FileError, ResolvedWorkspace};

/// Registers the capabilities `files`, `shell` and `repository`. Harnesses, agents and sessions enable them by name.
pub fn register(
    registry: &mut CapabilityRegistry,
    environments: &Environments,
    shell: ShellSettings,
) {
    registry.register(FilesCapability::new(environments.clone()));
    registry.register(ShellCapability::new(environments.clone(), shell));
    registry.register(RepositoryCapability::new(environments.clone()));
}

/// Compiles and runs the examples of these pages with the documentation tests.
#[cfg(all(doctest, feature = "mcp"))]
#[doc = include_str!("../../../docs/mcp.md")]
struct McpDoctests;

#[cfg(all(doctest, feature = "web"))]
#[doc = include_str!("../../../docs/web.md")]
struct WebDoctests;
