//! Where the tools of a turn touch the world.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::message::Controls;

/// The name under which the hints of an input's controls hold the environment, so that it is recorded with the input
/// and counts again when the turn is resumed.
pub const TURN_ENVIRONMENT: &str = "turn_environment";

/// The environment of a turn, its directory, and what the turn may do there. The environment's own policy narrows it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TurnEnvironment {
    /// The environment.
    pub environment_id: String,
    /// The directory to work in: absolute, or relative to the environment's root.
    pub cwd: PathBuf,
    /// Whether files may be changed.
    #[serde(default = "allowed")]
    pub write: bool,
    /// Whether commands may run.
    #[serde(default = "allowed")]
    pub shell: bool,
}

fn allowed() -> bool {
    true
}

impl TurnEnvironment {
    /// Names an environment and a directory in it; everything is allowed that the environment allows.
    pub fn new(environment_id: impl Into<String>, cwd: impl Into<PathBuf>) -> Self {
        Self {
            environment_id: environment_id.into(),
            cwd: cwd.into(),
            write: true,
            shell: true,
        }
    }

    /// Reads the environment that came with an input. What cannot be read counts as none.
    #[must_use]
    pub fn of(controls: &Controls) -> Option<Self> {
        let hint = controls.hints.as_ref()?.get(TURN_ENVIRONMENT)?;
        Self::deserialize(hint).ok()
    }

    /// Puts the environment into an input's controls.
    pub fn put_into(&self, controls: &mut Controls) -> Result<(), serde_json::Error> {
        let environment = serde_json::to_value(self)?;
        let hints = controls.hints.get_or_insert_default();
        hints.insert(TURN_ENVIRONMENT.to_owned(), environment);
        Ok(())
    }

    /// Lets the turn change nothing.
    #[must_use]
    pub fn read_only(mut self) -> Self {
        self.write = false;
        self
    }

    /// Lets the turn run no commands.
    #[must_use]
    pub fn without_shell(mut self) -> Self {
        self.shell = false;
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_environment_survives_the_controls_of_an_input() {
        let mut controls = Controls::default();
        assert_eq!(TurnEnvironment::of(&controls), None);
        let environment = TurnEnvironment::new("local", "/srv").read_only();
        environment.put_into(&mut controls).unwrap();
        assert_eq!(TurnEnvironment::of(&controls), Some(environment));
    }

    #[test]
    fn what_is_not_said_is_allowed() {
        let said = serde_json::json!({ "environment_id": "local", "cwd": "a" });
        let environment: TurnEnvironment = serde_json::from_value(said).unwrap();
        assert_eq!(environment, TurnEnvironment::new("local", "a"));
    }
}
