//! Resolution of the agent that owns a run.

use std::sync::Arc;

use windlass_core::runs::OWN_AGENTS;
use windlass_macros::Defaults;

use crate::caller::{Role, RunCaller};
use crate::error::RunError;
use crate::start::StartRun;

/// Returns whether an agent has its own token.
type HasToken = dyn Fn(&str) -> bool + Send + Sync;

/// The configured agents.
#[derive(Clone, Defaults)]
pub struct Agents {
    /// Whether an agent has its own token. If so, only a connection that presented the token may write as that agent.
    #[default(Arc::new(|_| false))]
    pub has_token: Arc<HasToken>,
    /// The owner of runs that name no agent.
    pub default_agent: Option<String>,
}

impl Agents {
    /// Resolves the agent of a new run from, in this order: the binding, the parameter, the configuration, the name.
    pub(crate) fn resolve(&self, caller: &RunCaller, start: &StartRun) -> Result<String, RunError> {
        let requested = non_blank(start.agent_id.as_deref());
        if let Role::Bound(bound) = &caller.role {
            return match requested {
                Some(requested) if requested != bound => Err(RunError::AgentMismatch {
                    requested: requested.to_owned(),
                }),
                _ => Ok(bound.clone()),
            };
        }
        let found = requested
            .or(non_blank(self.default_agent.as_deref()))
            .map(str::to_owned)
            .or_else(|| slug(start.agent_name.as_deref()?))
            .ok_or(RunError::NoAgent)?;
        if found.starts_with(OWN_AGENTS) {
            return Err(RunError::OwnAgent { agent_id: found });
        }
        if (self.has_token)(&found) {
            Err(RunError::AgentNeedsBinding { agent_id: found })
        } else {
            Ok(found)
        }
    }
}

fn non_blank(text: Option<&str>) -> Option<&str> {
    text.map(str::trim).filter(|text| !text.is_empty())
}

/// Derives an ID from a name: lower-case ASCII letters and digits, with one `-` for each run of other characters.
fn slug(name: &str) -> Option<String> {
    let words = name.split(|character: char| !character.is_ascii_alphanumeric());
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
