//! Rules of the operator: which calls run, which are asked about, and which are refused.
//!
//! The most careful rule that matches wins, whatever their order: `deny`, then `ask`, then `allow`. A call that no rule matches is treated as its
//! tool says. Rules are a convenience for people, not a wall: what a call can reach is limited by its environment.

mod command_line;
mod path;
mod pattern;
mod program;
mod reader;
mod remembered;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::tools::{ToolCall, ToolPolicy};
use command_line::CommandLine;
use pattern::matches_pattern;

pub use remembered::{RememberedCalls, call_digest};

/// What becomes of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ApprovalAction {
    /// It runs, and nobody is asked.
    Allow,
    /// Somebody is asked, unless its turn approves everything.
    Ask,
    /// It does not run, whatever its turn approves.
    Deny,
}

/// Which calls, and what becomes of them. What is not said matches everything.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ApprovalRule {
    /// The tool; `*` stands for any letters.
    pub tool: String,
    /// Patterns of its arguments: `*` stands for any letters but `/`, `**` for any.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub arguments: BTreeMap<String, String>,
    /// The first words of its command, such as `cargo test`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
    /// What becomes of it.
    pub action: ApprovalAction,
}

/// Tools that look through everything below a directory, the one where the turn works if none is named.
const SEARCHES: &[&str] = &["grep", "glob"];

/// All rules of an operator.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ApprovalRules {
    /// What becomes of calls that change something and that no rule matches; they are asked about if nothing is said.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub default: Option<ApprovalAction>,
    /// The rules.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub rules: Vec<ApprovalRule>,
}

impl ApprovalRule {
    /// Says what is wrong with it, if anything is.
    ///
    /// # Errors
    /// If it names no tool, or its command is not a few plain words.
    pub fn check(&self) -> Result<(), String> {
        if self.tool.trim().is_empty() {
            return Err("a rule needs a tool; `*` is any".to_owned());
        }
        let Some(command) = &self.command else {
            return Ok(());
        };
        match CommandLine::parse(command).map(|line| line.commands) {
            Some(commands) if commands.len() == 1 && !commands[0].is_empty() => Ok(()),
            _ => Err(format!(
                "the command {command:?} of a rule must be a few plain words, such as \"cargo test\""
            )),
        }
    }

    fn is_about(&self, call: &ToolCall) -> bool {
        let matches = |(name, pattern): (&String, &String)| {
            self.matches_argument(name, pattern, &call.arguments[name])
        };
        matches_pattern(&self.tool, &call.name) && self.arguments.iter().all(matches)
    }

    fn matches_argument(&self, name: &str, pattern: &str, value: &Value) -> bool {
        match value {
            Value::Null => false,
            Value::String(text) if path::is_named(name) => self.matches_path(pattern, text),
            Value::Array(values) if path::is_named(name) => {
                let mut texts = values.iter().map(Value::as_str);
                let is = |text: Option<&str>| text.is_some_and(|it| self.matches_path(pattern, it));
                match self.action {
                    ApprovalAction::Allow => !values.is_empty() && texts.all(is),
                    ApprovalAction::Ask | ApprovalAction::Deny => texts.any(is),
                }
            }
            Value::String(text) => matches_pattern(pattern, text),
            other => matches_pattern(pattern, &other.to_string()),
        }
    }

    fn matches_path(&self, pattern: &str, text: &str) -> bool {
        match self.action {
            ApprovalAction::Allow => path::is_surely(pattern, text),
            ApprovalAction::Ask | ApprovalAction::Deny => path::may_be(pattern, text),
        }
    }

    /// Tells whether a call looks through everything below a directory, and what this rule keeps from it may be there.
    fn is_searched_by(&self, call: &ToolCall) -> bool {
        let is_search = SEARCHES
            .iter()
            .any(|it| it.eq_ignore_ascii_case(&call.name));
        let is_reached = |(name, pattern): (&String, &String)| match &call.arguments[name] {
            Value::Null => path::is_named(name),
            Value::String(text) if path::is_named(name) => {
                path::may_be(pattern, text) || path::may_be_above(pattern, text)
            }
            value => self.matches_argument(name, pattern, value),
        };
        is_search
            && self.action != ApprovalAction::Allow
            && self.command.is_none()
            && !self.arguments.is_empty()
            && matches_pattern(&self.tool, &call.name)
            && self.arguments.iter().all(is_reached)
    }

    fn words(&self) -> Option<Vec<String>> {
        let line = CommandLine::parse(self.command.as_deref()?)?;
        line.commands.into_iter().next()
    }
}

impl ApprovalRules {
    /// Tells whether nothing is said.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.default.is_none() && self.rules.is_empty()
    }

    /// Tells whether every call of a tool is refused, so that it need not be offered.
    #[must_use]
    pub fn refuses_all_of(&self, tool: &str) -> bool {
        self.rules.iter().any(|rule| {
            rule.action == ApprovalAction::Deny
                && rule.command.is_none()
                && rule.arguments.is_empty()
                && matches_pattern(&rule.tool, tool)
        })
    }

    /// Says what becomes of a call of a tool with a policy.
    #[must_use]
    pub fn action_on(&self, call: &ToolCall, policy: ToolPolicy) -> ApprovalAction {
        let usual = match policy {
            ToolPolicy::RequiresApproval => self.default.unwrap_or(ApprovalAction::Ask),
            ToolPolicy::Auto | ToolPolicy::ClientSide => ApprovalAction::Allow,
        };
        if self.rules.is_empty() {
            return usual;
        }
        let line = CommandLine::of_argument(&call.arguments["command"]);
        let about: Vec<_> = self
            .rules
            .iter()
            .filter(|rule| rule.is_about(call))
            .collect();
        let keeps =
            |rule: &&ApprovalRule| rule.command.is_some() && rule.action != ApprovalAction::Allow;
        let within = match about.iter().any(keeps) {
            true => line.all_within(),
            false => Some(Vec::new()),
        };
        let says = |action| {
            about.iter().any(|rule| {
                let is_meant = match rule.words() {
                    Some(words) => within
                        .as_ref()
                        .is_none_or(|commands| commands.iter().any(|command| command.is(&words))),
                    None => rule.command.is_none(),
                };
                rule.action == action && is_meant
            })
        };
        match () {
            () if says(ApprovalAction::Deny) => ApprovalAction::Deny,
            () if says(ApprovalAction::Ask) => ApprovalAction::Ask,
            () if self.rules.iter().any(|rule| rule.is_searched_by(call)) => ApprovalAction::Ask,
            () if allows(&about, &line) => ApprovalAction::Allow,
            () => usual,
        }
    }
}

/// Tells whether rules let a whole call through. Of a command line, each command must be allowed, and nothing may be in it that is not
/// understood.
fn allows(about: &[&ApprovalRule], line: &CommandLine) -> bool {
    let mut allowing = about
        .iter()
        .filter(|rule| rule.action == ApprovalAction::Allow);
    if allowing.clone().any(|rule| rule.command.is_none()) {
        return true;
    }
    let known: Vec<_> = allowing.by_ref().filter_map(|rule| rule.words()).collect();
    let is_allowed = |command: &Vec<String>| {
        let mut known = known.iter();
        known.any(|words| CommandLine::is_allowed(command, words))
    };
    line.is_understood && !line.commands.is_empty() && line.commands.iter().all(is_allowed)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn rules(rules: Value) -> ApprovalRules {
        let rules: ApprovalRules = serde_json::from_value(rules).unwrap();
        for rule in &rules.rules {
            rule.check().unwrap();
        }
        rules
    }

    fn call(name: &str, arguments: Value) -> ToolCall {
        ToolCall {
            id: "c".to_owned(),
            name: name.to_owned(),
            arguments,
        }
    }

    fn shell(rules: &ApprovalRules, command: &str) -> ApprovalAction {
        let call = call("shell", json!({ "command": command }));
        rules.action_on(&call, ToolPolicy::RequiresApproval)
    }

    #[test]
    fn without_rules_a_tool_is_as_it_says() {
        let none = ApprovalRules::default();
        let call = call("write", json!({}));
        for (policy, action) in [
            (ToolPolicy::RequiresApproval, ApprovalAction::Ask),
            (ToolPolicy::Auto, ApprovalAction::Allow),
            (ToolPolicy::ClientSide, ApprovalAction::Allow),
        ] {
            assert_eq!(none.action_on(&call, policy), action);
        }
        let never = rules(json!({ "default": "deny" }));
        assert_eq!(
            never.action_on(&call, ToolPolicy::RequiresApproval),
            ApprovalAction::Deny
        );
        assert_eq!(
            never.action_on(&call, ToolPolicy::Auto),
            ApprovalAction::Allow
        );
    }

    #[test]
    fn a_command_is_allowed_when_all_of_it_is() {
        let rules = rules(json!({ "rules": [
            { "tool": "shell", "command": "cargo test", "action": "allow" },
            { "tool": "shell", "command": "ls", "action": "allow" },
            { "tool": "shell", "command": "git push", "action": "deny" },
            { "tool": "shell", "command": "ls /etc", "action": "ask" },
        ]}));
        for allowed in [
            "cargo test",
            "cargo  test --lib 'a b'",
            "cargo test && ls -l",
            "ls | ls; cargo test",
        ] {
            assert_eq!(shell(&rules, allowed), ApprovalAction::Allow, "{allowed}");
        }
        for asked in [
            "cargo",
            "cargo testing",
            "cargo test & rm x",
            "cargo test && rm x",
            "cargo test $(rm x)",
            "cargo test `rm x`",
            "cargo test > /etc/passwd",
            "cargo test \"$(rm x)\"",
            "cargo test\nrm x",
            "A=b cargo test",
            "cargo test 'open",
            "ls /etc",
            "ls && ls /etc",
            "(cargo test)",
            "",
        ] {
            assert_eq!(shell(&rules, asked), ApprovalAction::Ask, "{asked}");
        }
        for denied in [
            "git push",
            "ls && git push --force",
            "X=1 git push",
            "git   push $(x)",
            "'git' \"push\"",
            "(git push)",
            "echo $(git push)",
            "if true; then git push; fi",
            "while :; do git push; done",
            "time git push",
            "/usr/bin/git push",
            "sudo -n git push",
            "sudo env A=b git push",
            "bash -c 'ls && git push'",
            "sh -ec \"bash -c 'git push'\"",
            "eval 'git push'",
            "sudo -u root git push",
            "sudo -u root /usr/bin/git push",
            "nice -n 5 git push",
            "env -u X git push",
            "sudo -n env -i git push",
            "timeout 5 git push",
            "if timeout -k 1 5 git push; then ls; fi",
            "setsid git push",
            "stdbuf -o L git push",
            "doas -u x git push",
            "/usr/bin/time -f %e git push",
            "timeout 5 bash -c 'git push'",
            "sudo --exec bash -c 'git push'",
            "command eval 'git push'",
            "bash -ce 'git push'",
            "bash -c -e 'git push'",
            "bash -c -o pipefail 'git push'",
            "bash -co pipefail 'git push'",
            "bash -c +x 'git push'",
            "bash -c +o pipefail -O extglob 'git push'",
            "bash -c +O extglob +x 'git push'",
            "bash -c $'git push'",
            "find . -exec git push \\;",
            "find . -name x -execdir /usr/bin/git push {} +",
            "bash <<< 'git push'",
            "bash<<<\"git push\"",
            "bash <<< $'git push'",
            "cat <<< 'ls; git push' | sh",
            "bash <<< git\\ push",
            "watch -n 5 git push",
            "watch -n 5 'ls; git push'",
            "parallel 'git push' ::: origin",
            "flock /tmp/lock git push",
            "flock /tmp/lock -c 'git push'",
            "strace -f git push",
            "chroot / git push",
        ] {
            assert_eq!(shell(&rules, denied), ApprovalAction::Deny, "{denied}");
        }
    }

    #[test]
    fn a_command_is_found_however_a_shell_would_come_to_it() {
        let rules = rules(json!({ "rules": [
            { "tool": "shell", "command": "git push", "action": "deny" },
            { "tool": "shell", "command": "echo", "action": "allow" },
        ]}));
        for denied in [
            // Options, redirections and names of files between its words.
            "git -C . push",
            "git --no-pager -c color.ui=never push",
            "git >log push",
            "git 2>&1 push",
            "git &>log push",
            "/usr/bin/gi? push",
            // Quotes, comments and texts that end where a shell says.
            "echo \"$(git push)\"",
            "echo \"a `git push` b\"",
            "echo \"${x:-$(git push)}\"",
            "# don't\ngit push",
            "cat <<E\ndon't\nE\ngit push",
            "cat <<E\nit's $(git push) isn't\nE",
            "echo \"$(case x in a) git push;; esac)\"",
            "A+=b git push",
            "! git push",
            "diff <(git push) x",
            // What only a shell knows may be anything.
            "g=git; $g push",
            "x='git push'; $x",
            "a=push; git $a",
            "\"$g\" push",
            "`echo git` push",
            "{git,push}",
            "$'gi\\x74' push",
            "eval \"$x\"",
            "bash -c \"$x\"",
            // Lines that are run by others, or later.
            "env -S 'git push'",
            "env -iS'git push'",
            "env --split-string='git push'",
            "trap 'git push' EXIT",
            "alias p='git push'; p",
            "git -c alias.x='!git push' x",
            "git -c alias.x=push x",
            "git config alias.x '!git push'; git x",
            "git --config-env=alias.x=V x",
            "git -c core.sshCommand='git push' fetch",
            "git submodule foreach 'git push'",
            "git bisect run git push",
            "xargs git push",
            "echo push | xargs git",
            "uv run git push",
            // Texts for other interpreters.
            "python3 -c \"import os; os.system('git push')\"",
            "perl -e 'exec qw(git push)'",
            "awk 'BEGIN { system(\"git push\") }'",
            "python3 - <<'E'\nsubprocess.run(['git', 'push'])\nE",
        ] {
            assert_eq!(shell(&rules, denied), ApprovalAction::Deny, "{denied}");
        }
        for asked in [
            "git status",
            "git commit -m 'push it'",
            "git log push",
            "python3 -c 'print(1)'",
            "python3 - <<'E'\nprint(1)\nE",
            "python3 -m json.tool",
            "grep -c bash x",
            "\"$CC\" -c x.c",
            "$HOME/bin/tool push",
            "cd $A/$B && ls",
            "sh script.sh",
            "bash -x script.sh a",
            "bash --version",
            "[ -f x ] && ls",
            "for f in *.rs; do wc \"$f\"; done",
        ] {
            assert_eq!(shell(&rules, asked), ApprovalAction::Ask, "{asked}");
        }
    }

    #[test]
    fn an_interpreter_that_reads_what_it_runs_counts_as_what_is_kept_from_running() {
        let line = |action: &str| {
            rules(json!({ "rules": [
                { "tool": "shell", "command": "git push", "action": action },
                { "tool": "shell", "command": "echo", "action": "allow" },
                { "tool": "shell", "command": "cat", "action": "allow" },
                { "tool": "shell", "command": "sh", "action": "allow" },
            ]}))
        };
        for read in [
            "echo 'Z2l0IHB1c2gK' | base64 -d | bash",
            "printf 'git pu%s' sh | sh",
            "echo x | bash -s",
            "echo x | bash -",
            "echo x | bash -o pipefail",
            "echo x | bash /dev/stdin",
            "bash /proc/self/fd/0 < x",
            "bash <(echo x)",
            ". /dev/stdin < x",
            "bash <<'E'\nls\nE",
            "bash < file",
            "bash <<< x",
            "cat x | sudo -n sh",
            "cat x | env -i bash",
            "cat x | xargs bash -c",
            "cat x | python3",
            "cat x | python3.12 -",
            "cat x | perl",
            "/bin/bash < x",
            "bash -c 'cat x | sh'",
        ] {
            assert_eq!(shell(&line("deny"), read), ApprovalAction::Deny, "{read}");
            assert_eq!(shell(&line("ask"), read), ApprovalAction::Ask, "{read}");
        }
        // Without a rule that keeps something from running, the rules that allow decide.
        let allowed = rules(json!({ "rules": [
            { "tool": "shell", "command": "echo", "action": "allow" },
            { "tool": "shell", "command": "bash", "action": "allow" },
        ]}));
        assert_eq!(shell(&allowed, "echo x | bash"), ApprovalAction::Allow);
    }

    #[test]
    fn what_runs_others_is_allowed_only_with_what_it_runs() {
        let allow = |command: &str| {
            rules(json!({ "rules": [
                { "tool": "shell", "command": command, "action": "allow" },
                { "tool": "shell", "command": "echo", "action": "allow" },
            ]}))
        };
        for (rule, command, expected) in [
            ("ls", "echo 'git push' | bash", ApprovalAction::Ask),
            ("ls", "echo x | xargs git push", ApprovalAction::Ask),
            ("ls", "echo x | python3 -c 'import os'", ApprovalAction::Ask),
            ("ls", "echo x; sh script.sh", ApprovalAction::Ask),
            ("env", "env", ApprovalAction::Allow),
            ("env", "env bash -c 'rm x'", ApprovalAction::Ask),
            ("env", "env -S 'rm x'", ApprovalAction::Ask),
            ("timeout 5", "timeout 5 rm x", ApprovalAction::Ask),
            ("timeout 5 ls", "timeout 5 ls -l", ApprovalAction::Allow),
            ("sudo env", "sudo env rm x", ApprovalAction::Ask),
            ("uv run", "uv run python x.py", ApprovalAction::Ask),
            ("uv run python", "uv run python x.py", ApprovalAction::Allow),
            ("xargs", "echo x | xargs rm", ApprovalAction::Ask),
            ("find", "find . -name x", ApprovalAction::Allow),
            ("find", "find . -exec rm x \\;", ApprovalAction::Ask),
            ("git", "git status", ApprovalAction::Allow),
            ("git", "git -c alias.x='!rm x' x", ApprovalAction::Ask),
            ("git", "git config alias.x '!rm x'", ApprovalAction::Ask),
            ("python3", "python3 -c 'print(1)'", ApprovalAction::Allow),
        ] {
            assert_eq!(shell(&allow(rule), command), expected, "{rule}: {command}");
        }
    }

    #[test]
    fn a_command_that_comes_word_by_word_is_read_too() {
        let rules = rules(json!({ "rules": [
            { "tool": "*", "command": "git push", "action": "deny" },
            { "tool": "*", "command": "ls", "action": "allow" },
        ]}));
        let on = |command: Value| {
            let call = call("exec", json!({ "command": command }));
            rules.action_on(&call, ToolPolicy::RequiresApproval)
        };
        assert_eq!(on(json!(["ls", "-l", "; rm x"])), ApprovalAction::Allow);
        assert_eq!(on(json!(["git", "push"])), ApprovalAction::Deny);
        assert_eq!(on(json!(["bash", "-lc", "git push"])), ApprovalAction::Deny);
        assert_eq!(on(json!(["bash", "-lc", "ls"])), ApprovalAction::Ask);
        assert_eq!(on(json!(["ls", 1])), ApprovalAction::Ask);
        assert_eq!(on(json!("time ".repeat(5_000))), ApprovalAction::Ask);
        // Where too much would have to be looked at, whatever is kept from running could be in it.
        for deep in ["bash -c ", "time ", "env -i ", "eval "] {
            assert_eq!(on(json!(deep.repeat(30_000))), ApprovalAction::Deny);
        }
        for deep in ["bash <<< ", "watch 'a b' ", "bash -c -o x "] {
            assert_eq!(on(json!(deep.repeat(30_000))), ApprovalAction::Deny);
        }
        assert_eq!(on(json!("eval ".repeat(500))), ApprovalAction::Deny);
        let large = format!("{}'{}'", "eval ".repeat(50), "x".repeat(100_000));
        assert_eq!(on(json!(large)), ApprovalAction::Deny);
        let hidden = format!("git push;{}", "a;".repeat(20_000));
        assert_eq!(on(json!(hidden)), ApprovalAction::Deny);
    }

    #[test]
    fn only_programs_that_run_others_are_looked_through_and_never_to_allow() {
        let rules = rules(json!({ "rules": [
            { "tool": "*", "command": "/opt/tool run", "action": "deny" },
            { "tool": "*", "command": "git push", "action": "ask" },
            { "tool": "*", "command": "ls", "action": "allow" },
            { "tool": "*", "command": "echo", "action": "allow" },
        ]}));
        assert_eq!(shell(&rules, "echo git push"), ApprovalAction::Allow);
        assert_eq!(shell(&rules, "sudo echo git push"), ApprovalAction::Ask);
        assert_eq!(shell(&rules, "sudo ls"), ApprovalAction::Ask);
        assert_eq!(shell(&rules, "/opt/tool run x"), ApprovalAction::Deny);
    }

    #[test]
    fn arguments_are_matched_by_pattern_and_paths_that_wander_are_not_let_through() {
        let rules = rules(json!({ "rules": [
            { "tool": "write", "arguments": { "path": "docs/**" }, "action": "allow" },
            { "tool": "*", "arguments": { "path": "**/secret*" }, "action": "deny" },
            { "tool": "mcp__*", "action": "ask" },
        ]}));
        let on = |name: &str, path: &str, policy| {
            rules.action_on(&call(name, json!({ "path": path })), policy)
        };
        let asks = ToolPolicy::RequiresApproval;
        assert_eq!(on("write", "docs/a/b.md", asks), ApprovalAction::Allow);
        for wandering in ["docs/../src/a.rs", "/docs/a", "src/docs/a", "docs/./../x"] {
            assert_eq!(
                on("write", wandering, asks),
                ApprovalAction::Ask,
                "{wandering}"
            );
        }
        for secret in ["docs/secret.md", "x/./secret", "a//b/secret1", "/x/secret"] {
            assert_eq!(
                on("read", secret, ToolPolicy::Auto),
                ApprovalAction::Deny,
                "{secret}"
            );
        }
        assert_eq!(on("mcp__x__y", "a", ToolPolicy::Auto), ApprovalAction::Ask);
        assert!(!rules.refuses_all_of("read"), "only some of its calls");
    }

    #[test]
    fn a_path_is_kept_from_tools_however_it_is_written() {
        let rules = rules(json!({ "rules": [
            { "tool": "*", "arguments": { "path": ".github/**" }, "action": "deny" },
            { "tool": "*", "arguments": { "path": "./secret/**" }, "action": "deny" },
            { "tool": "*", "arguments": { "path": "/etc/**" }, "action": "deny" },
            { "tool": "many", "arguments": { "paths": "secret/**" }, "action": "deny" },
            { "tool": "grep", "arguments": { "path": "src/*/keys/**" }, "action": "ask" },
            { "tool": "*", "arguments": { "path": "docs/**" }, "action": "allow" },
            { "tool": "many", "arguments": { "paths": "docs/**" }, "action": "allow" },
        ]}));
        let on =
            |name: &str, arguments: Value, policy| rules.action_on(&call(name, arguments), policy);
        for denied in [
            ".github/x",
            "./.github/x",
            ".//.github//x",
            "/ws/.github/workflows/x",
            "../ws/.github/x",
            "a/../.github/x",
            "secret",
            "secret/",
            "./secret",
            "secret/a",
            "/ws/secret",
            "src/../secret/",
            "/etc/passwd",
            "//etc/./passwd",
            "/etc",
        ] {
            let action = on("write", json!({ "path": denied }), ToolPolicy::Auto);
            assert_eq!(action, ApprovalAction::Deny, "{denied}");
        }
        for free in [
            "a/.github/x",
            ".githubx/y",
            "secrets",
            "./src/x",
            "/ws/src",
            "etc/x",
        ] {
            let action = on("read", json!({ "path": free }), ToolPolicy::Auto);
            assert_eq!(action, ApprovalAction::Allow, "{free}");
        }
        for (paths, action) in [
            (json!(["docs/a", "docs/b"]), ApprovalAction::Allow),
            (json!(["docs/a", "/docs/b"]), ApprovalAction::Ask),
            (json!(["docs/a", "./secret/b"]), ApprovalAction::Deny),
            (json!(["docs/a", 1]), ApprovalAction::Ask),
            (json!([]), ApprovalAction::Ask),
        ] {
            let call = json!({ "paths": paths });
            assert_eq!(
                on("many", call, ToolPolicy::RequiresApproval),
                action,
                "{paths}"
            );
        }
        // What looks through everything below a directory may come to what is kept.
        for (name, arguments, action) in [
            ("grep", json!({ "pattern": "x" }), ApprovalAction::Ask),
            ("Grep", json!({ "pattern": "x" }), ApprovalAction::Ask),
            (
                "glob",
                json!({ "pattern": ".github/*" }),
                ApprovalAction::Ask,
            ),
            ("grep", json!({ "path": "." }), ApprovalAction::Ask),
            ("grep", json!({ "path": "" }), ApprovalAction::Ask),
            ("grep", json!({ "path": "/ws" }), ApprovalAction::Ask),
            ("grep", json!({ "path": "src" }), ApprovalAction::Ask),
            ("grep", json!({ "path": "src/a" }), ApprovalAction::Ask),
            ("grep", json!({ "path": "src/a/b" }), ApprovalAction::Allow),
            ("glob", json!({ "path": "src" }), ApprovalAction::Allow),
            ("grep", json!({ "path": "secret/" }), ApprovalAction::Deny),
            ("read", json!({ "path": "src" }), ApprovalAction::Allow),
            ("list", json!({}), ApprovalAction::Allow),
        ] {
            let said = format!("{name} {arguments}");
            assert_eq!(on(name, arguments, ToolPolicy::Auto), action, "{said}");
        }
    }

    #[test]
    fn a_rule_that_could_not_be_meant_is_refused() {
        for (tool, command) in [
            ("", None),
            ("shell", Some("a && b")),
            ("shell", Some("")),
            ("shell", Some("$x")),
        ] {
            let rule = ApprovalRule {
                tool: tool.to_owned(),
                arguments: BTreeMap::new(),
                command: command.map(str::to_owned),
                action: ApprovalAction::Allow,
            };
            assert!(rule.check().is_err(), "{tool} {command:?}");
        }
    }
}
