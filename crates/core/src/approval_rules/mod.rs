//! Rules of the operator: which calls run, which are asked about, and which are refused.
//!
//! The most careful rule that matches wins, whatever their order: `deny`, then `ask`, then `allow`. A call that no rule matches is treated as its
//! tool says. Rules are a convenience for people, not a wall: what a call can reach is limited by its environment.

mod command_line;
mod pattern;
mod remembered;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::tools::{ToolCall, ToolPolicy};
use command_line::CommandLine;
use pattern::{is_plain_path, matches_pattern};

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
        let matches = |(name, pattern): (&String, &String)| match &call.arguments[name] {
            Value::String(text) => self.matches_text(name, pattern, text),
            Value::Null => false,
            other => matches_pattern(pattern, &other.to_string()),
        };
        matches_pattern(&self.tool, &call.name) && self.arguments.iter().all(matches)
    }

    /// A path that could lead elsewhere than its letters say is never let through by a rule that allows.
    fn matches_text(&self, name: &str, pattern: &str, text: &str) -> bool {
        let is_path = name.contains("path") || name.contains("file") || name == "cwd";
        match (is_path, is_plain_path(text), self.action) {
            (true, false, ApprovalAction::Allow) => false,
            (true, false, _) => matches_pattern(pattern, &pattern::normal(text)),
            _ => matches_pattern(pattern, text),
        }
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
    let is_allowed = |command: &Vec<String>| known.iter().any(|words| starts(command, words));
    line.is_understood && !line.commands.is_empty() && line.commands.iter().all(is_allowed)
}

fn starts(command: &[String], words: &[String]) -> bool {
    !words.is_empty() && command.starts_with(words)
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
        ] {
            assert_eq!(shell(&rules, denied), ApprovalAction::Deny, "{denied}");
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
