//! Converts the sandbox settings of the configuration.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use windlass_tools::{Confinement, HomeAccess, UserHome};

use crate::cli::printable;
use crate::config::{self, Sandbox};

/// Returns the sandbox methods in order of preference; the first that works on this machine is used.
pub(crate) fn ways(configured: Sandbox) -> Vec<Confinement> {
    match configured {
        Sandbox::Auto => vec![Confinement::Bubblewrap, Confinement::Landlock],
        Sandbox::Bubblewrap => vec![Confinement::Bubblewrap],
        Sandbox::Landlock => vec![Confinement::Landlock],
        Sandbox::None => Vec::new(),
    }
}

/// Returns the method that is used on this machine.
pub(crate) fn selected(ways: &[Confinement]) -> Option<Confinement> {
    ways.iter().copied().find(|way| way.works_here())
}

/// Returns the name of the method that is used on this machine.
pub(crate) fn name(ways: &[Confinement]) -> &'static str {
    selected(ways).map_or("none", Confinement::name)
}

/// Logs the gaps of the method that is used on this machine, in one line.
pub(crate) fn warn_of_gaps(ways: &[Confinement]) {
    let Some(way) = selected(ways) else {
        tracing::warn!(
            "no sandbox works here, so commands are refused; `windlass doctor` suggests a fix"
        );
        return;
    };
    let gaps = way.gaps();
    if !gaps.is_empty() {
        tracing::warn!(
            sandbox = way.name(),
            commands_can = gaps.join("; "),
            "this sandbox does not guarantee everything; install bubblewrap, or read docs/security.md"
        );
    }
}

/// Returns the user's home with the paths that commands can see; `None` if the user has none.
pub(crate) fn home(configured: &config::ShellConfig, data: &Path) -> Result<Option<UserHome>> {
    let homes = [std::env::home_dir(), account_home()];
    let mut homes = homes.into_iter().flatten();
    let Some(mut home) = homes.find_map(|home| UserHome::new(&home)) else {
        return Ok(None);
    };
    homes.for_each(|other| home.hide_too(&other));
    let own = [Some(data.to_owned()), config::user_directory()];
    let own: Vec<_> = own
        .into_iter()
        .flatten()
        .filter_map(|own| own.canonicalize().ok())
        .collect();
    for (name, paths, access) in [
        ("home_paths", &configured.home_paths, HomeAccess::Read),
        (
            "writable_home_paths",
            &configured.writable_home_paths,
            HomeAccess::Write,
        ),
    ] {
        for path in paths {
            home.open(path, access)
                .with_context(|| format!("shell.{name} names {}", printable(path)))?;
        }
    }
    for (path, access) in home.opened() {
        let contains_daemon_files = own.iter().any(|own| match access {
            HomeAccess::Read => path.starts_with(own),
            HomeAccess::Write => path.starts_with(own) || own.starts_with(path),
        });
        ensure!(
            !contains_daemon_files,
            "commands cannot get access to {}: the daemon stores its data or configuration there",
            printable(path)
        );
    }
    home.open_programs(&std::env::var("PATH").unwrap_or_default());
    Ok(Some(home))
}

/// Returns the home of the account that runs this process: `HOME` may name another directory.
fn account_home() -> Option<PathBuf> {
    let user = rustix::process::geteuid().as_raw().to_string();
    let accounts = std::fs::read_to_string("/etc/passwd").ok()?;
    let mut accounts = accounts.lines().map(|line| line.split(':'));
    accounts.find_map(|mut fields| {
        let is_meant = fields.nth(2) == Some(&user);
        fields.nth(2).filter(|_| is_meant).map(PathBuf::from)
    })
}
