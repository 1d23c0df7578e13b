//! Parses the output of `git status --porcelain=v2`.

use windlass_protocol::WorkspaceStatus;

pub(super) fn parse_status(workspace: &str, text: &str) -> WorkspaceStatus {
    let mut state = WorkspaceStatus {
        workspace: workspace.to_owned(),
        git_repo: true,
        ..WorkspaceStatus::default()
    };
    for line in text.lines() {
        if let Some(branch) = line.strip_prefix("# branch.head ") {
            state.branch = Some(branch.to_owned()).filter(|name| name != "(detached)");
        } else if let Some(head) = line.strip_prefix("# branch.oid ") {
            let short = head.chars().take(7).collect();
            state.head = Some(short).filter(|_| head != "(initial)");
        } else if let Some(counts) = line.strip_prefix("# branch.ab ") {
            let mut counts = counts.split(' ').map(|count| count.get(1..)?.parse().ok());
            (state.ahead, state.behind) = (counts.next().flatten(), counts.next().flatten());
        } else if line.starts_with("? ") {
            state.untracked += 1;
        } else if let Some(changed) = line.strip_prefix("1 ").or(line.strip_prefix("2 ")) {
            let mut changes = changed.bytes();
            state.staged += u64::from(changes.next() != Some(b'.'));
            state.unstaged += u64::from(changes.next() != Some(b'.'));
        } else if line.starts_with("u ") {
            state.unstaged += 1;
        }
    }
    state.dirty = state.staged + state.unstaged + state.untracked > 0;
    state
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn status_counts_staged_unstaged_and_untracked_files() {
        let text = "# branch.oid 6da3192aa0\n# branch.head master\n# branch.ab +2 -1\n1 M. N... a\n1 .M N... b\n? c\n";
        assert_eq!(
            parse_status("/w", text),
            WorkspaceStatus {
                workspace: "/w".to_owned(),
                git_repo: true,
                branch: Some("master".to_owned()),
                head: Some("6da3192".to_owned()),
                dirty: true,
                staged: 1,
                unstaged: 1,
                untracked: 1,
                ahead: Some(2),
                behind: Some(1),
                git_unknown: None,
            }
        );
    }
}
