//! What a caller wishes of one turn, beside model, language and thinking.

use serde::{Deserialize, Serialize};

use crate::message::Controls;
use crate::tool_types::{BuiltinTool, ToolDefinition, ToolPolicy};

/// The name under which the hints of an input's controls hold the wishes, so that they are recorded with the input
/// and count again when the turn is resumed.
pub const TURN_WISHES: &str = "turn_wishes";

/// What a caller wishes of one turn.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct TurnWishes {
    /// The name of another model of the same provider, in place of the name that the resolved model has.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// What the agent is told beside its own prompt.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub system_prompt: Option<String>,
    /// Further tools that somebody outside carries out.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tools: Vec<ToolDefinition>,
    /// The only tools of the turn, by name or glob; `None` is all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allowed_tools: Option<Vec<String>>,
    /// Tools that the turn does not have, by name or glob.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub disallowed_tools: Vec<String>,
    /// Whether calls that need an approval run without one.
    pub approve_all: bool,
    /// Whether the turn fails when the model says, thinks and calls nothing in all of it.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub needs_output: bool,
    /// Whether the turn ends, instead of going on, when the process was gone meanwhile.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub interrupt_on_restart: bool,
}

impl TurnWishes {
    /// Reads the wishes that came with an input. What cannot be read counts as no wish.
    #[must_use]
    pub fn of(controls: &Controls) -> Self {
        let hint = controls
            .hints
            .as_ref()
            .and_then(|hints| hints.get(TURN_WISHES));
        hint.and_then(|wishes| Self::deserialize(wishes).ok())
            .unwrap_or_default()
    }

    /// Puts the wishes into an input's controls.
    pub fn put_into(&self, controls: &mut Controls) -> Result<(), serde_json::Error> {
        let wishes = serde_json::to_value(self)?;
        let hints = controls.hints.get_or_insert_default();
        hints.insert(TURN_WISHES.to_owned(), wishes);
        Ok(())
    }

    /// Adds, removes and changes tools as wished.
    #[must_use]
    pub fn apply(&self, mut offered: Vec<ToolDefinition>) -> Vec<ToolDefinition> {
        for tool in &self.tools {
            match offered.iter_mut().find(|known| known.name() == tool.name()) {
                Some(known) => known.clone_from(tool),
                None => offered.push(tool.clone()),
            }
        }
        offered.retain(|tool| self.wants(tool));
        if self.approve_all {
            offered.iter_mut().for_each(approve);
        }
        offered
    }

    fn wants(&self, tool: &ToolDefinition) -> bool {
        let names = |patterns: &[String]| {
            patterns.iter().any(|pattern| {
                matches(pattern, tool.name())
                    || tool
                        .display_name()
                        .is_some_and(|name| matches(pattern, name))
            })
        };
        self.allowed_tools.as_deref().is_none_or(names) && !names(&self.disallowed_tools)
    }
}

fn approve(tool: &mut ToolDefinition) {
    if let ToolDefinition::Builtin(BuiltinTool { policy, .. }) = tool
        && *policy == ToolPolicy::RequiresApproval
    {
        *policy = ToolPolicy::Auto;
    }
}

/// Tells whether a name fits a pattern, in which `*` stands for any text and `?` for any one character.
fn matches(pattern: &str, name: &str) -> bool {
    let (pattern, name): (Vec<char>, Vec<char>) =
        (pattern.chars().collect(), name.chars().collect());
    let (mut p, mut n) = (0, 0);
    let mut star: Option<(usize, usize)> = None;
    while n < name.len() {
        match pattern.get(p) {
            Some('*') => {
                star = Some((p, n));
                p += 1;
            }
            Some(c) if *c == '?' || *c == name[n] => {
                p += 1;
                n += 1;
            }
            _ => match star {
                Some((at, from)) => {
                    star = Some((at, from + 1));
                    (p, n) = (at + 1, from + 1);
                }
                None => return false,
            },
        }
    }
    pattern[p..].iter().all(|c| *c == '*')
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn tool(name: &str, display_name: Option<&str>) -> ToolDefinition {
        let mut tool = ToolDefinition::client_side(name, "", json!({"type": "object"}));
        if let ToolDefinition::ClientSide(tool) = &mut tool {
            tool.display_name = display_name.map(str::to_owned);
        }
        tool
    }

    #[test]
    fn patterns_fit_whole_names() {
        for (pattern, name, fits) in [
            ("shell", "shell", true),
            ("shell", "shell2", false),
            ("tau::*", "tau::get", true),
            ("*", "", true),
            ("*a*b", "xxaxxb", true),
            ("*a*b", "xxaxxbc", false),
            ("f?o", "foo", true),
            ("f?o", "fo", false),
        ] {
            assert_eq!(matches(pattern, name), fits, "{pattern} {name}");
        }
    }

    #[test]
    fn what_is_allowed_is_exact_and_shown_names_count() {
        let wishes = TurnWishes {
            tools: vec![tool("tau__get", Some("tau::get")), tool("other", None)],
            allowed_tools: Some(vec!["tau::*".to_owned(), "shell".to_owned()]),
            disallowed_tools: vec!["shell".to_owned()],
            ..TurnWishes::default()
        };
        let offered = wishes.apply(vec![tool("shell", None), tool("files", None)]);
        let names: Vec<_> = offered.iter().map(ToolDefinition::name).collect();
        assert_eq!(names, ["tau__get"]);
    }

    #[test]
    fn wishes_survive_the_controls_of_an_input() {
        let wishes = TurnWishes {
            model: Some("another".to_owned()),
            approve_all: true,
            tools: vec![tool("x", None)],
            ..TurnWishes::default()
        };
        let mut controls = Controls::default();
        wishes.put_into(&mut controls).unwrap();
        assert_eq!(TurnWishes::of(&controls), wishes);
        assert_eq!(TurnWishes::of(&Controls::default()), TurnWishes::default());
    }
}
