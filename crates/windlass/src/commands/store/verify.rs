//! `windlass store verify`.

use std::process::ExitCode;

use clap::Args;
use serde_json::json;
use windlass_store::sqlite::{Report, StreamHead};

use super::progress::ProgressReporter;
use super::{StoreContext, as_json, report_findings};

pub(super) const EXAMPLES: &str = "Examples:\n  windlass store verify\n  windlass store verify --data /var/backups/monday --json\n\n\
It finds records that were changed, moved, added or removed from the middle. A removed tail is found only by comparison with \
stored heads (--heads).";

#[derive(Args)]
pub(super) struct Verify {
    /// Adds the head of each stream to the JSON; store it to detect a removed tail later.
    #[arg(long, requires = "json")]
    heads: bool,
}

impl Verify {
    pub(super) async fn run(self, context: &StoreContext) -> anyhow::Result<ExitCode> {
        let store = context.open_to_read().await?;
        let progress = ProgressReporter::start("verifying");
        let report = store.verify().await?;
        drop(progress);
        let Report {
            heads,
            records,
            pruned,
            findings,
        } = report;
        let streams = heads.len();
        let verdict = match findings.len() {
            0 => "sound".to_owned(),
            1 => "1 problem".to_owned(),
            count => format!("{count} problems"),
        };
        let text = format!("{streams} streams, {records} records, {pruned} pruned: {verdict}");
        let mut json = json!({
            "streams": streams,
            "records": records,
            "pruned": pruned,
            "findings": as_json(&findings),
        });
        if self.heads {
            let heads = heads.iter().map(|StreamHead { stream, seq, chain }| {
                json!({"stream": stream.to_string(), "seq": seq, "chain": chain})
            });
            json["heads"] = heads.collect();
        }
        context.print(&json, &text)?;
        Ok(report_findings(
            &findings,
            "save readable records with `windlass store export FILE`; if only lists are wrong, `windlass store rebuild` repairs \
             them; otherwise restore a backup with `windlass store restore`",
        ))
    }
}
