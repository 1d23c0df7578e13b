//! Rules of the operator: which calls run, which are asked about, and which are refused.
//!
//! The most careful rule that matches wins, whatever their order: `deny`, then `ask`, then `allow`. A call that no rule matches is treated as its
//! tool says. Rules are a convenience for people, not a wall: what a call can reach is limited by its environment.

mod command_line;
mod git;
mod given;
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

/// Arguments that say where a command runs.
const DIRECTORIES: &[&str] = &["cwd", "workdir", "working_directory"];

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
        line.commands.into_iter().next().map(reader::as_written)
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
            () if allows(&about, &line, call) => ApprovalAction::Allow,
            () => usual,
        }
    }
}

/// Tells whether rules let a whole call through. Of a command line, each command must be allowed, and nothing may be in it that is not
/// understood. A script that a rule names by a relative path is meant where calls are usually run, and not in another directory.
fn allows(about: &[&ApprovalRule], line: &CommandLine, call: &ToolCall) -> bool {
    let allowing = about
        .iter()
        .filter(|rule| rule.action == ApprovalAction::Allow);
    if allowing.clone().any(|rule| rule.command.is_none()) {
        return true;
    }
    let is_moved = line.changes_directory()
        || DIRECTORIES
            .iter()
            .any(|name| !call.arguments[*name].is_null());
    let is_meant = |rule: &&&ApprovalRule| {
        !is_moved
            || DIRECTORIES
                .iter()
                .any(|name| rule.arguments.contains_key(*name))
    };
    let words = allowing.filter_map(|rule| {
        let words = rule.words()?;
        (is_meant(&rule) || !CommandLine::names_script(&words)).then_some(words)
    });
    let known: Vec<_> = words.collect();
    let is_allowed = |command: &Vec<String>| {
        let command = reader::as_written(command.clone());
        let mut known = known.iter();
        known.any(|words| CommandLine::is_allowed(&command, words))
    };
    line.is_understood && !line.commands.is_empty() && line.commands.iter().all(is_allowed)
}

#[cfg(test)]
mod tests;
