//! The operator's approval rules.
//!
//! The strictest matching rule applies, in any order: `deny`, then `ask`, then `allow`. Without a matching rule the tool's own policy applies.
//! Rules reduce the number of approval requests; they are not a security boundary. The sandbox limits a call's access.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::command::CommandLine;
use crate::path;
use crate::pattern::matches_pattern;

/// The decision about a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ApprovalAction {
    /// The call runs without approval.
    Allow,
    /// The call needs the user's approval, unless the turn approves every call.
    Ask,
    /// The call is refused, even if the turn approves every call.
    Deny,
}

/// Selects calls and decides them. An absent condition matches every call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ApprovalRule {
    /// Name of the tool; `*` matches any characters.
    pub tool: String,
    /// Argument names with a pattern for each value: `*` matches any characters except `/`, `**` matches any characters.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub arguments: BTreeMap<String, String>,
    /// First words of the command, such as `cargo test`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
    /// The decision about a matching call.
    pub action: ApprovalAction,
}

/// Tools that search everything below a directory; the default directory is the turn's working directory.
const SEARCHES: &[&str] = &["grep", "glob"];

/// Names of arguments that set the working directory of a command.
const DIRECTORIES: &[&str] = &["cwd", "workdir", "working_directory"];

/// All approval rules of the operator.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ApprovalRules {
    /// Decision about calls that need approval and match no rule; `Ask` if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub default: Option<ApprovalAction>,
    /// The rules; their order does not matter.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub rules: Vec<ApprovalRule>,
}

impl ApprovalRule {
    /// Checks that the rule can match a call.
    ///
    /// # Errors
    /// The rule names no tool, or its command is not a single plain command.
    pub fn check(&self) -> Result<(), String> {
        if self.tool.trim().is_empty() {
            return Err("a rule needs a tool; `*` is any".to_owned());
        }
        match (&self.command, self.words()) {
            (Some(command), None) => Err(format!(
                "the command {command:?} of a rule must be a few plain words, such as \"cargo test\""
            )),
            _ => Ok(()),
        }
    }

    fn is_about(&self, call: &RuleInput<'_>) -> bool {
        let matches = |(name, pattern): (&String, &String)| {
            self.matches_argument(name, pattern, &call.arguments[name.as_str()])
        };
        matches_pattern(&self.tool, call.tool) && self.arguments.iter().all(matches)
    }

    fn matches_argument(&self, name: &str, pattern: &str, value: &Value) -> bool {
        match value {
            Value::Null => false,
            Value::String(text) if path::is_path_argument(name) => self.matches_path(pattern, text),
            Value::Array(values) if path::is_path_argument(name) => {
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
            ApprovalAction::Allow => path::matches_exactly(pattern, text),
            ApprovalAction::Ask | ApprovalAction::Deny => path::may_match(pattern, text),
        }
    }

    /// Returns whether the call searches a directory that may contain a path of this `deny` or `ask` rule.
    fn is_searched_by(&self, call: &RuleInput<'_>) -> bool {
        let is_search = SEARCHES.iter().any(|it| it.eq_ignore_ascii_case(call.tool));
        let is_reached = |(name, pattern): (&String, &String)| match &call.arguments[name.as_str()]
        {
            Value::Null => path::is_path_argument(name),
            Value::String(text) if path::is_path_argument(name) => {
                path::may_match(pattern, text) || path::may_match_below(pattern, text)
            }
            value => self.matches_argument(name, pattern, value),
        };
        is_search
            && self.action != ApprovalAction::Allow
            && self.command.is_none()
            && !self.arguments.is_empty()
            && matches_pattern(&self.tool, call.tool)
            && self.arguments.iter().all(is_reached)
    }

    /// Returns the words of the rule's command.
    fn words(&self) -> Option<Vec<String>> {
        match CommandLine::parse(self.command.as_deref()?) {
            CommandLine::Plain(mut commands) if commands.len() == 1 => commands.pop(),
            _ => None,
        }
    }
}

/// The parts of a call that rules are matched against.
struct RuleInput<'a> {
    tool: &'a str,
    arguments: &'a Value,
}

impl ApprovalRules {
    /// Returns whether there are neither rules nor a default.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.default.is_none() && self.rules.is_empty()
    }

    /// Returns whether every call of a tool is denied, so that the tool need not be offered to the model.
    #[must_use]
    pub fn refuses_all_of(&self, tool: &str) -> bool {
        self.rules.iter().any(|rule| {
            rule.action == ApprovalAction::Deny
                && rule.command.is_none()
                && rule.arguments.is_empty()
                && matches_pattern(&rule.tool, tool)
        })
    }

    /// Decides a call. Without a matching rule, a tool that needs approval gets the default; any other tool runs.
    #[must_use]
    pub fn decide(&self, tool: &str, arguments: &Value, needs_approval: bool) -> ApprovalAction {
        let usual = if needs_approval {
            self.default.unwrap_or(ApprovalAction::Ask)
        } else {
            ApprovalAction::Allow
        };
        if self.rules.is_empty() {
            return usual;
        }
        let call = RuleInput { tool, arguments };
        let line = CommandLine::from_argument(&arguments["command"]);
        let about: Vec<_> = self
            .rules
            .iter()
            .filter(|rule| rule.is_about(&call))
            .collect();
        let applies = |action| {
            about.iter().any(|rule| {
                rule.action == action
                    && match rule.words() {
                        Some(words) => line.may_run(&words),
                        None => rule.command.is_none(),
                    }
            })
        };
        if applies(ApprovalAction::Deny) {
            ApprovalAction::Deny
        } else if applies(ApprovalAction::Ask)
            || self.rules.iter().any(|rule| rule.is_searched_by(&call))
        {
            ApprovalAction::Ask
        } else if allows(&about, &line, &call) {
            ApprovalAction::Allow
        } else if matches!(line, CommandLine::Tokens(_))
            && about.iter().any(|rule| rule.command.is_some())
        {
            usual.max(ApprovalAction::Ask)
        } else {
            usual
        }
    }
}

/// Returns whether rules allow the whole call: a rule allows the tool, or every command of a plain line matches a rule. A program with a relative
/// path refers to the default working directory, so such a rule does not apply in another directory.
fn allows(about: &[&ApprovalRule], line: &CommandLine, call: &RuleInput<'_>) -> bool {
    let allowing = about
        .iter()
        .filter(|rule| rule.action == ApprovalAction::Allow);
    if allowing.clone().any(|rule| rule.command.is_none()) {
        return true;
    }
    let is_set = |name: &&str| !call.arguments[*name].is_null();
    let is_moved = line.changes_directory() || DIRECTORIES.iter().any(is_set);
    let names_directory = |rule: &ApprovalRule| {
        DIRECTORIES
            .iter()
            .any(|name| rule.arguments.contains_key(*name))
    };
    let is_relative = |program: &String| program.contains('/') && !program.starts_with('/');
    let words = allowing.filter_map(|rule| {
        let words = rule.words()?;
        let is_elsewhere = is_moved && !names_directory(rule) && is_relative(&words[0]);
        (!is_elsewhere).then_some(words)
    });
    line.is_allowed(&words.collect::<Vec<_>>())
}

#[cfg(test)]
mod tests;
