//! Undo of the file changes of turns.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry::{Occupied, Vacant};
use std::path::{Path, PathBuf};

use windlass_core::turn_environment::TurnEnvironment;
use windlass_core::typed_id::TurnId;

use super::attribution::{Attribution, attribute};
use super::call_records::{CallRecord, InitialCheckpoint};
use super::manifest::ManifestEntry;
use super::restore::RestoreStep;
use super::{CheckpointError, CheckpointId, Checkpoints, RestoreReport, StoreGuard, lock};
use crate::environments::Environments;
use crate::workspace::ResolvedWorkspace;

/// A turn to undo.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TurnToUndo {
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
struct NetChange {
    before: Option<ManifestEntry>,
    after: Option<ManifestEntry>,
}

/// The steps that undo the calls of one workspace.
struct UndoPlan {
    steps: Vec<RestoreStep>,
    /// Paths that another program changed during or between the calls.
    external_edits: Vec<PathBuf>,
    /// Paths that differ since calls that were cut off.
    cut_off: Vec<PathBuf>,
}

impl Checkpoints {
    /// Restores the files to their state before the given turns, which are in order. All or nothing: if another program changed the same files, even
    /// in between, nothing is touched. Idempotent.
    pub fn undo(
        &self,
        environments: &Environments,
        turns: &[TurnToUndo],
        cut_off_calls: CutOffCalls,
    ) -> Result<RestoreReport, CheckpointError> {
        let mut by_root: BTreeMap<PathBuf, Vec<CallRecord>> = BTreeMap::new();
        for turn in turns {
            for call in self.calls_of(*turn)? {
                by_root.entry(call.root.clone()).or_default().push(call);
            }
        }
        let mut workspaces = Vec::new();
        for (root, calls) in &by_root {
            let id = calls.last().map(|call| call.environment.as_str());
            workspaces.push(resolve_root(environments, root, id)?);
        }
        let roots: Vec<&Path> = by_root.keys().map(PathBuf::as_path).collect();
        let _work = self.register_alone(&roots)?;
        // Prevents removal of content that the plan needs.
        let guard = self.enter();
        let mut plans = Vec::new();
        let mut edited = Vec::new();
        let mut cut_off = Vec::new();
        for at in &workspaces {
            // A call may have ended during the wait, so the record is read again.
            let mut calls = Vec::new();
            for turn in turns {
                let mut calls_of_turn = self.calls_of(*turn)?;
                calls_of_turn.retain(|call| call.root == at.root_path());
                calls.extend(CallRecord::merged(calls_of_turn));
            }
            let plan = self.undo_plan(&guard, at, &calls)?;
            plans.push((at, plan.steps));
            edited.extend(plan.external_edits);
            cut_off.extend(plan.cut_off);
        }
        for (at, steps) in &plans {
            edited.extend(self.external_edits(&guard, at, steps)?);
        }
        if !edited.is_empty() {
            edited.sort();
            edited.dedup();
            return Err(CheckpointError::ExternalEdits { paths: edited });
        }
        if cut_off_calls == CutOffCalls::Refuse && !cut_off.is_empty() {
            cut_off.sort();
            cut_off.dedup();
            return Err(CheckpointError::CutOff { paths: cut_off });
        }
        self.restore_all(&guard, plans)
    }

    fn calls_of(&self, turn: TurnToUndo) -> Result<Vec<CallRecord>, CheckpointError> {
        let covered = *lock(&self.shared.covered);
        let record = self.record(turn.turn_id)?;
        // Applies even if there is a record: an earlier record of the same turn may have been removed between two of its calls.
        if turn.began < covered.since.max(covered.removed_until) {
            return Err(CheckpointError::NotRecorded);
        }
        Ok(record.map_or_else(Vec::new, |record| record.calls))
    }

    /// Computes the steps that undo the calls of one workspace.
    fn undo_plan(
        &self,
        guard: &StoreGuard<'_>,
        at: &ResolvedWorkspace,
        calls: &[CallRecord],
    ) -> Result<UndoPlan, CheckpointError> {
        let mut changes: BTreeMap<PathBuf, NetChange> = BTreeMap::new();
        let mut external_edits = Vec::new();
        let mut cut_off = Vec::new();
        for (index, call) in calls.iter().enumerate() {
            let before = before(call)?;
            // The changes of a call without an end last until the next recorded state, or until now.
            let after = match (&call.after, calls.get(index + 1)) {
                (Some(after), _) => after.clone(),
                (None, Some(next)) => self::before(next)?.clone(),
                (None, None) => self.take_in(guard, at)?,
            };
            if *before == after {
                continue;
            }
            let (before, after) = self.manifests(guard, at.root_path(), before, &after)?;
            for path in before.differences(&after) {
                let (old, new) = (before.get(path), after.get(path));
                let attribution = match (&call.own, call.is_shared) {
                    _ if call.after.is_none() => Attribution::Unknown,
                    (_, false) => Attribution::Own,
                    (None, true) => Attribution::Unknown,
                    (Some(own), true) => attribute(own, path, old.as_ref(), new.as_ref()),
                };
                match attribution {
                    Attribution::Other => continue,
                    Attribution::Unknown => external_edits.push(path.clone()),
                    Attribution::Own if call.is_cut_off => cut_off.push(path.clone()),
                    Attribution::Own => {}
                }
                match changes.entry(path.clone()) {
                    Vacant(change) => {
                        let (before, after) = (old, new);
                        change.insert(NetChange { before, after });
                    }
                    Occupied(mut change) => {
                        let change = change.get_mut();
                        if change.after != old {
                            external_edits.push(path.clone());
                        }
                        change.after = new;
                    }
                }
            }
        }
        // Paths that are back in their initial state are not touched, whatever changed them.
        changes.retain(|_, change| change.before != change.after);
        external_edits.retain(|path| changes.contains_key(path));
        cut_off.retain(|path| changes.contains_key(path));
        let steps = changes.into_iter().map(|(path, change)| RestoreStep {
            path,
            from: change.after,
            to: change.before,
        });
        Ok(UndoPlan {
            steps: steps.collect(),
            external_edits,
            cut_off,
        })
    }
}

fn before(call: &CallRecord) -> Result<&CheckpointId, CheckpointError> {
    match &call.before {
        InitialCheckpoint::Taken(id) => Ok(id),
        InitialCheckpoint::NotTaken(why) => Err(CheckpointError::NotTaken { why: why.clone() }),
    }
}

/// Opens the workspace with this root, preferably through the environment with this ID, otherwise through another one that now has the root.
pub(super) fn resolve_root(
    environments: &Environments,
    root: &Path,
    id: Option<&str>,
) -> Result<ResolvedWorkspace, CheckpointError> {
    let moved = || CheckpointError::Moved {
        id: id.unwrap_or_default().to_owned(),
        root: root.to_owned(),
    };
    let mut candidates = environments.list();
    candidates.retain(|environment| environment.root() == root);
    let environment = candidates
        .iter()
        .find(|it| Some(it.id()) == id)
        .or(candidates.first());
    let turn = TurnEnvironment::new(environment.ok_or_else(moved)?.id(), "");
    environments.resolve(Some(&turn)).map_err(|_| moved())
}
