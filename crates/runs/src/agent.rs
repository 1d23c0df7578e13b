//! Whose run it is.

use std::collections::HashSet;

use crate::caller::{Caller, Role};
use crate::error::RunError;
use crate::start::StartRun;

/// What is known of agents from the configuration.
#[derive(Debug, Clone, Default)]
pub struct Agents {
    /// Agents with a token of their own: only a connection that showed it may write as one of them.
    pub registered: HashSet<String>,
    /// Whose runs they are when nobody says so.
    pub default_agent: Option<String>,
}

impl Agents {
    /// Finds the agent of a new run: the binding, the parameter, the configuration, the name; in this order.
    pub(crate) fn resolve(&self, caller: &Caller, start: &StartRun) -> Result<String, RunError> {
        let asked = non_blank(start.agent_id.as_deref());
        if let Role::Bound(bound) = &caller.role {
            return match asked {
                Some(asked) if asked != bound => Err(RunError::AgentMismatch {
                    asked: asked.to_owned(),
                }),
                _ => Ok(bound.clone()),
            };
        }
        let found = asked
            .or(non_blank(self.default_agent.as_deref()))
            .map(str::to_owned)
            .or_else(|| slug(start.agent_name.as_deref()?))
            .ok_or(RunError::NoAgent)?;
        match self.registered.contains(&found) {
            true => Err(RunError::AgentNeedsBinding { agent_id: found }),
            false => Ok(found),
        }
    }
}

fn non_blank(text: Option<&str>) -> Option<&str> {
    text.map(str::trim).filter(|text| !text.is_empty())
}

/// Makes an id of a name: letters and digits of ASCII in lower case, anything else between them one `-`.
#[must_use]
pub fn slug(name: &str) -> Option<String> {
    let words = name.split(|letter: char| !letter.is_ascii_alphanumeric());
    let words: Vec<String> = words
        .filter(|word| !word.is_empty())
        .map(str::to_ascii_lowercase)
        .collect();
    (!words.is_empty()).then(|| format!("name:{}", words.join("-")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_becomes_an_id() {
        let cases = [
            ("Bulldozer Agent", Some("name:bulldozer-agent")),
            ("  --Ünï  C0de!! x", Some("name:n-c0de-x")),
            ("!!!", None),
            ("", None),
        ];
        for (name, id) in cases {
            assert_eq!(slug(name).as_deref(), id, "{name}");
        }
    }
}
