//! The start of a command in the sandbox, compared with bubblewrap.

use std::path::Path;
use std::process::Stdio;
use std::time::Instant;

use windlass_core::SessionId;
use windlass_core::traits::ToolContext;
use windlass_tools::{Confinement, Environments, ShellCapability, ShellSettings};

use super::{Result, median, millis, tool_of, value_of};
use crate::report::{Bound, Report};

const STARTS: usize = 60;

pub(super) async fn measure(
    report: &mut Report,
    environments: &Environments,
    root: &Path,
) -> Result<()> {
    const NAME: &str = "start of `true` in the sandbox / bubblewrap by hand";
    if !Confinement::Bubblewrap.works_here() {
        report.skipped(NAME, "bubblewrap does not work here");
        return Ok(());
    }
    report.progress("commands");
    let settings = ShellSettings {
        ways: vec![Confinement::Bubblewrap],
        ..ShellSettings::default()
    };
    let shell_program = settings.shell.clone();
    let capability = ShellCapability::new(environments.clone(), settings);
    let shell = tool_of(&capability, "shell")?;
    let context = ToolContext::new(SessionId::new());
    // The sides alternate, so that other load affects both.
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    for _ in 0..STARTS {
        let started = Instant::now();
        let arguments = serde_json::json!({ "command": "true" });
        let ran = shell.execute_with_context(arguments, &context).await;
        ours.push(millis(started.elapsed()));
        if value_of(ran)?["exit_code"] != 0 {
            return Err("`true` failed".into());
        }
        let started = Instant::now();
        let ran = by_hand(root, &shell_program).await?;
        theirs.push(millis(started.elapsed()));
        if !ran.success() {
            return Err("`true` by hand failed".into());
        }
    }
    let (ours, theirs) = (median(ours), median(theirs));
    report.figure("start of `true` in the sandbox", ours, "ms", Bound::None);
    report.figure(
        "start of `true` by hand in bubblewrap",
        theirs,
        "ms",
        Bound::None,
    );
    report.figure(NAME, ours / theirs, "ratio", Bound::AtMost(1.3));
    Ok(())
}

/// Starts bubblewrap with typical careful options.
async fn by_hand(root: &Path, shell: &Path) -> Result<std::process::ExitStatus> {
    let mut bwrap = tokio::process::Command::new("bwrap");
    bwrap
        .args(["--unshare-all", "--die-with-parent", "--new-session"])
        .args(["--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc"])
        .args(["--tmpfs", "/tmp", "--bind"])
        .args([root, root])
        .arg("--chdir")
        .arg(root)
        .arg(shell)
        .args(["-c", "true"])
        .stdin(Stdio::null());
    Ok(bwrap.output().await?.status)
}
