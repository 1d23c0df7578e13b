//! Where an agent of others runs: in the turn's environment, with its own settings writable and the rest of the home out of its sight.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use windlass_agents::{PlaceError, Places};
use windlass_core::backend::BackendSpec;
use windlass_process::{Network, Place};
use windlass_tools::{Environments, ShellSettings};

use crate::config::BackendKind;

pub(super) struct BackendPlaces {
    pub(super) environments: Environments,
    pub(super) shell: ShellSettings,
    pub(super) home: PathBuf,
    pub(super) kind: BackendKind,
    /// Whether the home is the agent's own and not the user's.
    pub(super) is_own: bool,
}

impl Places for BackendPlaces {
    fn place(&self, spec: &BackendSpec) -> Result<Place, PlaceError> {
        let refused = |why: String| PlaceError::Refused(why);
        let turn = spec.environment.as_ref();
        let place = self.shell.place_of(&self.environments, turn, None);
        let mut place = place.map_err(|error| refused(error.to_string()))?;
        if place.bounds.network == Network::None {
            return Err(refused(
                "the environment gives programs no network, and the agent has to reach its provider: set its policy to network = \
                 \"inherit\", or let the thread work in another environment"
                    .to_owned(),
            ));
        }
        let writable = match self.is_own {
            true => self.home.clone(),
            false => self.home.join(self.settings_directory()),
        };
        fs::create_dir_all(&writable)
            .and_then(|()| writable.canonicalize())
            .map(|writable| place.bounds.also_writable.push(writable))
            .map_err(|error| refused(format!("cannot make {}: {error}", writable.display())))?;
        if !self.is_own {
            let seen = self.seen(&place, spec);
            let hidden = others_in(&self.home, &place.bounds.root, &seen);
            let hidden = place
                .bounds
                .hidden
                .with(hidden.iter().map(PathBuf::as_path));
            place.bounds.hidden = Arc::new(hidden);
        }
        Ok(place)
    }
}

impl BackendPlaces {
    /// Where the agent keeps its login and its sessions, below the home.
    fn settings_directory(&self) -> &'static str {
        match self.kind {
            BackendKind::ClaudeCode => ".claude",
            BackendKind::Codex => ".codex",
            BackendKind::Gemini => ".gemini",
            BackendKind::Acp => ".config",
        }
    }

    /// What of the home the agent needs to see: its own settings, where it works, and where programs are.
    fn seen(&self, place: &Place, spec: &BackendSpec) -> Vec<PathBuf> {
        let mut seen = vec![place.bounds.root.clone(), self.home.join(".claude.json")];
        seen.extend(place.bounds.also_writable.iter().cloned());
        seen.extend(spec.command.iter().cloned());
        let path = spec.variables.get("PATH").map_or("", String::as_str);
        seen.extend(std::env::split_paths(path));
        // Programs are often links into another directory.
        let real: Vec<_> = seen
            .iter()
            .filter_map(|path| path.canonicalize().ok())
            .collect();
        seen.extend(real);
        seen
    }
}

/// Returns what lies in a home directory, but for what leads to something that is to be seen, and for what is in the root.
fn others_in(home: &Path, root: &Path, seen: &[PathBuf]) -> Vec<PathBuf> {
    let entries = fs::read_dir(home).into_iter().flatten().flatten();
    let others = entries.map(|entry| entry.path());
    others
        .filter(|other| !other.starts_with(root))
        .filter(|other| !seen.iter().any(|seen| seen.starts_with(other)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_leads_to_nothing_that_is_needed_is_hidden() {
        let home = tempfile::tempdir().unwrap();
        let at = |name: &str| home.path().join(name);
        for name in ["work/project", ".claude", ".nvm/bin", "private", ".config"] {
            fs::create_dir_all(at(name)).unwrap();
        }
        let seen = [at("work/project"), at(".claude"), at(".nvm/bin")];
        let mut hidden = others_in(home.path(), &seen[0], &seen);
        hidden.sort();
        assert_eq!(hidden, [at(".config"), at("private")]);
        // Who works in the home itself sees what is there, but for keys, which are hidden from all.
        assert!(others_in(home.path(), home.path(), &seen).is_empty());
    }
}
