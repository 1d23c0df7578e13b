//! Unknown tool names in `[approvals]` and `[tools]`: a typo there leaves a rule without effect, which would go unnoticed.

use std::collections::BTreeSet;

use windlass_config::nearest;
use windlass_tools::mcp::may_be_tool_of;

use crate::config::Config;

/// The tools of the daemon's own agent.
const OWN_TOOLS: [&str; 15] = [
    "activate_skill",
    "edit",
    "glob",
    "grep",
    "list",
    "read",
    "request_user_input",
    "shell",
    "shell_output",
    "shell_stop",
    "spawn_agent",
    "tool_search",
    "update_plan",
    "web_fetch",
    "write",
];

/// Names that external agents use in the Agent Client Protocol.
const ACP_TOOLS: [&str; 10] = [
    "delete",
    "edit",
    "execute",
    "fetch",
    "move",
    "other",
    "read",
    "search",
    "switch_mode",
    "think",
];

/// Returns a warning for each unknown name, with its location and a suggestion. The tools of servers, clients and other agents become known later, if
/// at all, so an unknown name is not an error.
pub(crate) fn warnings(config: &Config) -> Vec<String> {
    let rules = config.approvals.rules.iter();
    let rules = rules.map(|rule| ("approvals.rules", rule.tool.as_str()));
    let disabled = config.tools.disabled.iter();
    let disabled = disabled.map(|tool| ("tools.disabled", tool.as_str()));
    let unknown = rules.chain(disabled).filter(|(_, tool)| {
        let of_server = |server: &String| may_be_tool_of(server, tool);
        !is_known(tool) && !config.mcp_servers.keys().any(of_server)
    });
    let unknown: BTreeSet<_> = unknown.collect();
    let warnings = unknown.into_iter().map(|(key, tool)| {
        let meant = nearest(tool, &OWN_TOOLS).map(|meant| format!("; did you mean `{meant}`?"));
        format!(
            "{key} names `{tool}`, which is neither a tool of Windlass nor of a configured MCP server{}",
            meant.unwrap_or_default()
        )
    });
    warnings.collect()
}

/// Returns whether a tool may have this name without any server. Patterns may match any tool; tools of Claude Code and Codex contain capitals, such
/// as `Bash` and `fileChange`.
fn is_known(tool: &str) -> bool {
    let is_pattern = tool.contains('*');
    let has_capitals = tool.contains(|character: char| character.is_ascii_uppercase());
    is_pattern || has_capitals || OWN_TOOLS.contains(&tool) || ACP_TOOLS.contains(&tool)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use windlass_runtime::{OnLostCommits, RecoveryPolicy, SessionBuilder};
    use windlass_server::Access;

    use super::*;
    use crate::daemon::DaemonOptions;

    fn warnings_for(names: &[&str]) -> Vec<String> {
        let text =
            format!("[mcp_servers.'my files']\ncommand = 'x'\n[tools]\ndisabled = {names:?}");
        warnings(&Config::parse(&text, Path::new("")).unwrap())
    }

    #[test]
    fn typo_is_reported_and_possible_tools_are_not() {
        let known = [
            "shell",
            "sh*",
            "mcp__*",
            "Bash",
            "fileChange",
            "execute",
            "mcp__my_files__x",
        ];
        assert_eq!(warnings_for(&known), [""; 0]);
        for (name, meant) in [
            ("shel", Some("`shell`")),
            ("web-fetch", Some("`web_fetch`")),
            ("mcp__files__x", None),
            ("mcp__my_files__", None),
            ("frobnicate", None),
        ] {
            let warnings = warnings_for(&[name, name]);
            assert_eq!(warnings.len(), 1, "{warnings:?}");
            assert!(warnings[0].contains(&format!("`{name}`")), "{warnings:?}");
            let end = meant.map(|meant| format!("did you mean {meant}?"));
            assert_eq!(
                warnings[0].contains("did you mean"),
                end.is_some(),
                "{warnings:?}"
            );
            assert!(
                warnings[0].ends_with(&end.unwrap_or_default()),
                "{warnings:?}"
            );
        }
    }

    #[tokio::test]
    async fn own_tools_are_those_that_a_daemon_offers() {
        let data = tempfile::tempdir().unwrap();
        let workspace = tempfile::tempdir().unwrap();
        let options = DaemonOptions {
            data: &data.path().join("data"),
            workspace: workspace.path().to_owned(),
            config: &Config::default(),
            source: None,
            model: Some("sim"),
            secrets_key_file: None,
            own_files: Vec::new(),
            has_agents: true,
            recovery: RecoveryPolicy::Resume,
            on_lost_commits: OnLostCommits::Refuse,
        };
        let opened = Box::pin(options.open(|| Ok(Access::Open))).await;
        let daemon = opened.unwrap();
        let probe = SessionBuilder::new(daemon.settings.harness_id).build();
        let context = daemon.runtime.preview_context(probe).await.unwrap();
        let tools = context.runtime_agent.tools;
        let mut offered: Vec<&str> = tools.iter().map(|tool| tool.name()).collect();
        // Offered only if there are more tools than a model gets at once.
        offered.push("tool_search");
        offered.sort_unstable();
        assert_eq!(offered, OWN_TOOLS);
        daemon.store.close().await;
    }
}
