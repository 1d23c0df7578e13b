//! Undo of the file changes of turns.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use windlass_core::turn_environment::TurnEnvironment;
use windlass_core::typed_id::TurnId;

use super::manifest::Entry;
use super::own::{self, Whose};
use super::restore::Step;
use super::turns::{Before, CallRecord};
use super::{CheckpointError, CheckpointId, Checkpoints, Entered, Restored, lock};
use crate::environments::Environments;
use crate::workspace::ResolvedWorkspace;

/// A turn to undo.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UndoneTurn {
    /// ID of the turn.
    pub turn_id: TurnId,
    /// Start time of the turn, in nanoseconds since 1970.
    pub began: i64,
}

/// How to treat calls that were cut off when a process died: the differences may not all be their changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum CutOffCalls {
    /// Fails without touching a file if there are such calls.
    #[default]
    Refuse,
    /// Attributes all differences found by the next process to them.
    TakeBack,
}

/// The entry at a path before the first call that changed it, and after the last.
struct Net {
    before: Option<Entry>,
    after: Option<Entry>,
}

/// The steps that undo the calls of one workspace.
struct WayBack {
    steps: Vec<Step>,
    /// Paths that something else changed during or between the calls.
    foreign: Vec<PathBuf>,
    /// Paths that differ since calls that were cut off.
    cut_off: Vec<PathBuf>,
}

impl Checkpoints {
    /// Restores the files to their state before the given turns, which are in order. All or nothing: if something else changed the same files, even
    /// in between, nothing is touched. Idempotent.
    pub fn undo(
        &self,
        environments: &Environments,
        turns: &[UndoneTurn],
        cut_off_calls: CutOffCalls,
    ) -> Result<Restored, CheckpointError> {
        let mut by_root: BTreeMap<PathBuf, Vec<CallRecord>> = BTreeMap::new();
        for turn in turns {
            for call in self.calls_of(*turn)? {
                by_root.entry(call.root.clone()).or_default().push(call);
            }
        }
        let mut workspaces = Vec::new();
        for (root, calls) in &by_root {
            workspaces.push(resolved(environments, root, calls)?);
        }
        let roots: Vec<&Path> = by_root.keys().map(PathBuf::as_path).collect();
        let _working = self.work_alone(&roots)?;
        // Prevents removal of content that the plan needs.
        let entered = self.enter();
        let mut plans = Vec::new();
        let mut foreign = Vec::new();
        let mut cut_off = Vec::new();
        for at in &workspaces {
            // A call may have ended during the wait, so the record is read again.
            let mut calls = Vec::new();
            for turn in turns {
                let of_turn = self.calls_of(*turn)?.into_iter();
                let of_turn = of_turn.filter(|call| call.root == at.root_path());
                calls.extend(CallRecord::merged(of_turn));
            }
            let back = self.way_back(&entered, at, &calls)?;
            plans.push((at, back.steps));
            foreign.extend(back.foreign);
            cut_off.extend(back.cut_off);
        }
        for (at, steps) in &plans {
            foreign.extend(self.foreign(&entered, at, steps)?);
        }
        if !foreign.is_empty() {
            foreign.sort();
            foreign.dedup();
            return Err(CheckpointError::ForeignEdits { paths: foreign });
        }
        if cut_off_calls == CutOffCalls::Refuse && !cut_off.is_empty() {
            cut_off.sort();
            cut_off.dedup();
            return Err(CheckpointError::CutOff { paths: cut_off });
        }
        self.restore_all(&entered, plans)
    }

    fn calls_of(&self, turn: UndoneTurn) -> Result<Vec<CallRecord>, CheckpointError> {
        let known = *lock(&self.shared.known);
        let record = self.record(turn.turn_id)?;
        match record {
            // Applies even if there is a record: an earlier record of the same turn may have been removed between two of its calls.
            _ if turn.began < known.since.max(known.removed_until) => {
                Err(CheckpointError::NotKnown)
            }
            None => Ok(Vec::new()),
            Some(record) => Ok(record.calls),
        }
    }

    /// Computes the steps that undo the calls of one workspace.
    fn way_back(
        &self,
        entered: &Entered<'_>,
        at: &ResolvedWorkspace,
        calls: &[CallRecord],
    ) -> Result<WayBack, CheckpointError> {
        let mut net: BTreeMap<PathBuf, Net> = BTreeMap::new();
        let mut foreign = Vec::new();
        let mut cut_off = Vec::new();
        for (place, call) in calls.iter().enumerate() {
            let before = before(call)?;
            // The changes of a call without an end last until the next recorded state, or until now.
            let after = match (&call.after, calls.get(place + 1)) {
                (Some(after), _) => after.clone(),
                (None, Some(next)) => self::before(next)?.clone(),
                (None, None) => self.take_in(entered, at)?,
            };
            if *before == after {
                continue;
            }
            let (before, after) = self.manifests(entered, at.root_path(), before, &after)?;
            for path in before.differing(&after) {
                let whose = match (&call.own, call.is_shared) {
                    _ if call.after.is_none() => Whose::Nobodys,
                    (_, false) => Whose::Its,
                    (None, true) => Whose::Nobodys,
                    (Some(own), true) => {
                        let (before, after) = (before.get(path), after.get(path));
                        own::whose(own, path, before.as_ref(), after.as_ref())
                    }
                };
                if matches!(whose, Whose::Others) {
                    continue;
                }
                if matches!(whose, Whose::Nobodys) {
                    foreign.push(path.clone());
                } else if call.is_cut_off {
                    cut_off.push(path.clone());
                }
                let is_new = !net.contains_key(path);
                let net = net.entry(path.clone()).or_insert_with(|| Net {
                    before: before.get(path),
                    after: None,
                });
                if !is_new && net.after != before.get(path) {
                    foreign.push(path.clone());
                }
                net.after = after.get(path);
            }
        }
        // Paths that are back in their initial state are not touched, whatever changed them.
        net.retain(|_, net| net.before != net.after);
        foreign.retain(|path| net.contains_key(path));
        cut_off.retain(|path| net.contains_key(path));
        let steps = net.into_iter().map(|(path, net)| Step {
            path,
            from: net.after,
            to: net.before,
        });
        Ok(WayBack {
            steps: steps.collect(),
            foreign,
            cut_off,
        })
    }
}

fn before(call: &CallRecord) -> Result<&CheckpointId, CheckpointError> {
    match &call.before {
        Before::Kept(id) => Ok(id),
        Before::NotKept(why) => Err(CheckpointError::NotKept { why: why.clone() }),
    }
}

/// Opens the workspace of calls, through the environment of the calls or another one that now has this root.
pub(super) fn resolved(
    environments: &Environments,
    root: &Path,
    calls: &[CallRecord],
) -> Result<ResolvedWorkspace, CheckpointError> {
    let named = calls.last().map(|call| call.environment.clone());
    let moved = || CheckpointError::Moved {
        id: named.clone().unwrap_or_default(),
        root: root.to_owned(),
    };
    let mut there = environments.list();
    there.retain(|environment| environment.root() == root);
    let same = there
        .iter()
        .find(|it| Some(it.id()) == named.as_deref())
        .or(there.first());
    let turn = TurnEnvironment::new(same.ok_or_else(moved)?.id(), "");
    environments.resolve(Some(&turn)).map_err(|_| moved())
}
