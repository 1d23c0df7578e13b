//! `grep` over many files, compared with `rg`.

use std::path::Path;
use std::process::Stdio;
use std::time::Instant;

use windlass_core::SessionId;
use windlass_core::traits::ToolContext;
use windlass_tools::{Environments, FilesCapability};

use super::{FILES, Result, TRIES, millis, tool_of, value_of};
use crate::report::{Bound, Report};

pub(super) async fn measure(
    report: &mut Report,
    environments: &Environments,
    root: &Path,
) -> Result<()> {
    report.progress("grep");
    let files = FilesCapability::new(environments.clone());
    let grep = tool_of(&files, "grep")?;
    let context = ToolContext::new(SessionId::new());
    let arguments = serde_json::json!({ "pattern": "needle", "limit": 500 });
    let mut ours = f64::INFINITY;
    for _ in 0..TRIES {
        let started = Instant::now();
        let found = grep.execute_with_context(arguments.clone(), &context).await;
        ours = ours.min(millis(started.elapsed()));
        let found = value_of(found)?;
        let hits = found["matches"].as_array().map_or(0, Vec::len);
        if (hits, &found["files_searched"]) != (FILES / 100, &serde_json::json!(FILES)) {
            return Err(format!("grep found {hits} lines in {}", found["files_searched"]).into());
        }
    }
    report.figure("grep over 20,000 files", ours, "ms", Bound::None);
    let (Some(theirs), Some(sorted)) = (
        best_of(root, &[]).await?,
        best_of(root, &["--sort", "path"]).await?,
    ) else {
        report.skipped("grep over 20,000 files / rg", "`rg` is not installed");
        return Ok(());
    };
    report.figure(
        "grep over 20,000 files / rg",
        ours / theirs,
        "ratio",
        Bound::AtMost(1.5),
    );
    report.figure(
        "the same / rg --sort path, one thread",
        ours / sorted,
        "ratio",
        Bound::None,
    );
    Ok(())
}

/// Returns the best duration of `rg` including its start; `None` if it is not installed.
async fn best_of(root: &Path, options: &[&str]) -> Result<Option<f64>> {
    let mut best = f64::INFINITY;
    for _ in 0..TRIES {
        let started = Instant::now();
        let mut rg = tokio::process::Command::new("rg");
        rg.args(options).args(["--line-number", "needle"]).arg(root);
        let ran = rg.stdin(Stdio::null()).output().await;
        let ran = match ran {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            ran => ran?,
        };
        best = best.min(millis(started.elapsed()));
        let hits = ran.stdout.iter().filter(|byte| **byte == b'\n').count();
        if hits != FILES / 100 {
            return Err(format!("rg found {hits} lines").into());
        }
    }
    Ok(Some(best))
}
