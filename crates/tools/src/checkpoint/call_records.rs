//! Records of the calls that changed files: one small file for each turn, written before a call begins and after it has ended.
//!
//! Each call has a checkpoint before and after it, rather than the turn as a whole. Changes between two calls are therefore known to be external. If
//! the process dies during a call, the call has no end, and its changes are unknown.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use windlass_core::typed_id::{SessionId, TurnId};

use super::attribution::OwnWrite;
use super::blobs::{Fsync, entries, write_file, write_json};
use super::index::now;
use super::retention::{CheckpointGroup, bytes_in};
use super::undo::resolve_root;
use super::{CheckpointError, CheckpointId, Checkpoints, lock, path_text};
use crate::environments::Environments;
use crate::workspace::ResolvedWorkspace;

const VERSION: u32 = 1;
/// How long a restore waits for calls that are about to end.
const MAX_WAIT: Duration = Duration::from_secs(10);

/// A turn whose calls change files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CheckpointedTurn {
    /// ID of the session.
    pub session_id: SessionId,
    /// ID of the turn.
    pub turn_id: TurnId,
}

/// The record of a turn.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct TurnRecord {
    version: u32,
    session_id: SessionId,
    pub(super) calls: Vec<CallRecord>,
}

/// The record of one call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct CallRecord {
    /// Position among the starts and ends of calls in the turn; independent of the clock. It identifies the call.
    number: u64,
    pub(super) environment: String,
    #[serde(with = "path_text")]
    pub(super) root: PathBuf,
    /// Start time, in nanoseconds since 1970.
    began: i64,
    pub(super) before: InitialCheckpoint,
    /// `None` while the call runs. If the process died meanwhile, the state that the next process found.
    pub(super) after: Option<CheckpointId>,
    /// Position of the end, in the same sequence as `number`; absent in records of earlier versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    ended: Option<u64>,
    /// Whether the process died during the call, so that the differences may not all be its changes.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(super) is_cut_off: bool,
    /// Whether a call of another turn ran in the workspace at the same time, so that the author of a change is unknown.
    pub(super) is_shared: bool,
    /// The files that it wrote, if it is known to have changed nothing else.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) own: Option<Vec<OwnWrite>>,
}

/// The state before a call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum InitialCheckpoint {
    #[serde(rename = "kept")]
    Taken(CheckpointId),
    /// The reason why there is no checkpoint.
    #[serde(rename = "not_kept")]
    NotTaken(String),
}

impl CallRecord {
    /// Merges calls of a turn that ran at the same time, such as a background command and the calls during it: their checkpoints contain the changes
    /// of all of them. A call without a known end is not merged.
    pub(super) fn merged(calls: impl IntoIterator<Item = Self>) -> Vec<Self> {
        let mut merged: Vec<Self> = Vec::new();
        for call in calls {
            match merged.last_mut() {
                Some(last) if last.ended > Some(call.number) && call.ended.is_some() => {
                    last.is_shared |= call.is_shared;
                    last.own = None;
                    last.is_cut_off |= call.is_cut_off;
                    if call.ended > last.ended {
                        last.ended = call.ended;
                        last.after = call.after;
                    }
                }
                _ => merged.push(call),
            }
        }
        merged
    }

    /// Returns whether the call is running or has no recorded end.
    fn is_open(&self) -> bool {
        matches!(self.before, InitialCheckpoint::Taken(_)) && self.after.is_none()
    }

    /// Returns the checkpoints that the record refers to.
    fn checkpoints(&self) -> impl Iterator<Item = (PathBuf, CheckpointId)> {
        let before = match &self.before {
            InitialCheckpoint::Taken(id) => Some(id),
            InitialCheckpoint::NotTaken(_) => None,
        };
        let ids = before.into_iter().chain(&self.after);
        ids.map(|id| (self.root.clone(), id.clone()))
    }
}

/// The times from which records are complete, in nanoseconds since 1970.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct CoveredPeriod {
    version: u32,
    /// Turns that began earlier may have made unrecorded calls.
    pub(super) since: i64,
    /// Records of turns that began earlier may have been removed.
    pub(super) removed_until: i64,
}

impl CoveredPeriod {
    fn path(directory: &Path) -> PathBuf {
        directory.join("known.json")
    }

    /// Reads the stored period; it starts now if there is none.
    pub(super) fn open(directory: &Path) -> io::Result<Self> {
        let path = Self::path(directory);
        let stored = match fs::read(&path) {
            Ok(bytes) => serde_json::from_slice(&bytes).ok(),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(error),
        };
        if let Some(stored) = stored.filter(|stored: &Self| stored.version == VERSION) {
            return Ok(stored);
        }
        let new = Self {
            version: VERSION,
            since: now(),
            removed_until: 0,
        };
        write_file(&path, &serde_json::to_vec(&new)?, Fsync::Yes)?;
        Ok(new)
    }
}

/// A call or restore in progress in a workspace.
#[derive(Debug)]
pub(super) struct ActiveWork {
    id: u64,
    root: PathBuf,
    /// `None` for a restore.
    turn: Option<TurnId>,
    is_shared: bool,
}

/// A call that changes files. If it is dropped without `end`, its changes are unknown.
#[derive(Debug)]
pub struct CheckpointedCall {
    checkpoints: Checkpoints,
    at: Arc<ResolvedWorkspace>,
    turn: CheckpointedTurn,
    number: u64,
    has_checkpoint: bool,
    work: RegisteredWork,
}

/// Registers work in a workspace until it is dropped.
#[derive(Debug)]
pub(super) struct RegisteredWork {
    checkpoints: Checkpoints,
    id: u64,
}

impl Drop for RegisteredWork {
    fn drop(&mut self) {
        let shared = &self.checkpoints.shared;
        lock(&shared.active).retain(|active| active.id != self.id);
        shared.ended.notify_all();
    }
}

impl RegisteredWork {
    fn is_shared(&self) -> bool {
        let active = lock(&self.checkpoints.shared.active);
        active.iter().any(|it| it.id == self.id && it.is_shared)
    }
}

impl Checkpoints {
    /// Takes a checkpoint before a call of a turn. A failure to take it is recorded. Only a failure to write the record is an error, because the call
    /// would otherwise leave no trace.
    pub fn begin(
        &self,
        at: Arc<ResolvedWorkspace>,
        turn: CheckpointedTurn,
    ) -> Result<CheckpointedCall, CheckpointError> {
        let mut active = lock(&self.shared.active);
        let work = self.register(&mut active, at.root_path(), Some(turn.turn_id));
        drop(active);
        // Prevents removal of the checkpoint until the record refers to it.
        let guard = self.enter();
        let before = match self.take_in(&guard, &at) {
            Ok(id) => InitialCheckpoint::Taken(id),
            Err(error) => {
                let root = at.root_path().display();
                tracing::warn!(%root, %error, "the changes of a call cannot be undone");
                InitialCheckpoint::NotTaken(error.to_string())
            }
        };
        let has_checkpoint = matches!(before, InitialCheckpoint::Taken(_));
        let number = self.change_record(turn, |calls| {
            let number = next_position(calls);
            calls.push(CallRecord {
                number,
                environment: at.id().to_owned(),
                root: at.root_path().to_owned(),
                began: now(),
                before,
                after: None,
                ended: None,
                is_cut_off: false,
                is_shared: false,
                own: None,
            });
            number
        })?;
        Ok(CheckpointedCall {
            checkpoints: self.clone(),
            at,
            turn,
            number,
            has_checkpoint,
            work,
        })
    }

    /// Registers a call or restore, and marks overlapping calls as shared.
    fn register(
        &self,
        active: &mut Vec<ActiveWork>,
        root: &Path,
        turn: Option<TurnId>,
    ) -> RegisteredWork {
        let id = self.shared.next_active.fetch_add(1, Ordering::Relaxed);
        let mut is_shared = false;
        for other in active.iter_mut().filter(|it| overlap(&it.root, root)) {
            if other.turn != turn {
                other.is_shared = true;
                is_shared = true;
            }
        }
        active.push(ActiveWork {
            id,
            root: root.to_owned(),
            turn,
            is_shared,
        });
        RegisteredWork {
            checkpoints: self.clone(),
            id,
        }
    }

    /// Waits until no work is in progress in these workspaces, and registers this work.
    pub(super) fn register_alone(
        &self,
        roots: &[&Path],
    ) -> Result<Vec<RegisteredWork>, CheckpointError> {
        let mut active = lock(&self.shared.active);
        let until = Instant::now() + MAX_WAIT;
        let busy_root = |active: &[ActiveWork]| {
            let is_busy = |root: &&&Path| active.iter().any(|it| overlap(&it.root, root));
            roots.iter().find(is_busy).copied()
        };
        while let Some(root) = busy_root(&active) {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                let root = root.to_owned();
                return Err(CheckpointError::Busy { root });
            }
            let waited = self.shared.ended.wait_timeout(active, left);
            active = waited.map_or_else(|poisoned| poisoned.into_inner().0, |waited| waited.0);
        }
        let register = |root: &&Path| self.register(&mut active, root, None);
        Ok(roots.iter().map(register).collect())
    }

    fn record_path(&self, turn_id: TurnId) -> PathBuf {
        let name = format!("{}.json", turn_id.uuid().simple());
        self.shared.directory.join("turns").join(name)
    }

    /// Returns the record of a turn.
    pub(super) fn record(&self, turn_id: TurnId) -> Result<Option<TurnRecord>, CheckpointError> {
        let path = self.record_path(turn_id);
        match fs::read(&path) {
            Ok(bytes) => read_record(&bytes)
                .map(Some)
                .ok_or(CheckpointError::Damaged { path }),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(CheckpointError::io("read", &path)(error)),
        }
    }

    fn change_record<T>(
        &self,
        turn: CheckpointedTurn,
        change: impl FnOnce(&mut Vec<CallRecord>) -> T,
    ) -> Result<T, CheckpointError> {
        let _changing = lock(&self.shared.records);
        let path = self.record_path(turn.turn_id);
        let record = self.record(turn.turn_id)?;
        let mut record = record.unwrap_or_else(|| TurnRecord {
            version: VERSION,
            session_id: turn.session_id,
            calls: Vec::new(),
        });
        let result = change(&mut record.calls);
        if record.calls.is_empty() {
            fs::remove_file(&path).map_err(CheckpointError::io("write", &path))?;
        } else {
            write_json(&path, &record, Fsync::Yes)?;
        }
        Ok(result)
    }

    /// Marks a store as incomplete from now on, so that unrecorded calls are not mistaken for turns without changes.
    pub fn turn_off(directory: impl AsRef<Path>) -> io::Result<()> {
        match fs::remove_file(CoveredPeriod::path(directory.as_ref())) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }

    /// Removes the oldest turns if the store exceeds its limit.
    pub(super) fn prune(&self) -> Result<(), CheckpointError> {
        let limit = self.shared.limits.stored_bytes;
        let failed = CheckpointError::io("clean up", &self.shared.directory);
        let cached = *lock(&self.shared.stored);
        let stored = match cached {
            Some(stored) => stored,
            None => bytes_in(&self.shared.directory).map_err(&failed)?,
        };
        *lock(&self.shared.stored) = Some(stored);
        if stored <= limit {
            return Ok(());
        }
        let locked = self.lock_for_removal();
        let _changing = lock(&self.shared.records);
        let records = self.records()?;
        // Prunes below the limit, so that the next call does not prune again.
        let retained = self.retain_newest(&locked, &groups(&records), limit / 5 * 4)?;
        let removed = &records[..records.len() - retained];
        let Some(newest) = removed.iter().map(|(_, record)| record.began()).max() else {
            return Ok(());
        };
        let mut covered = lock(&self.shared.covered);
        covered.removed_until = covered.removed_until.max(newest + 1);
        let path = CoveredPeriod::path(&self.shared.directory);
        write_json(&path, &*covered, Fsync::Yes)?;
        for (path, _) in removed {
            fs::remove_file(path).map_err(&failed)?;
        }
        Ok(())
    }

    /// Returns the records of all turns with their files: the oldest first, then turns with running calls.
    fn records(&self) -> Result<Vec<(PathBuf, TurnRecord)>, CheckpointError> {
        let directory = self.shared.directory.join("turns");
        let files = entries(&directory).map_err(CheckpointError::io("read", &directory))?;
        let mut records = Vec::new();
        for file in files {
            // An unreadable record is not removed, and its checkpoints are not retained.
            let read = fs::read(file.path()).ok();
            if let Some(record) = read.and_then(|bytes| read_record(&bytes)) {
                records.push((file.path(), record));
            }
        }
        let running: Vec<_> = lock(&self.shared.active)
            .iter()
            .filter_map(|work| work.turn)
            .map(|turn_id| self.record_path(turn_id))
            .collect();
        records.sort_by_key(|(path, record)| (running.contains(path), record.began()));
        Ok(records)
    }

    /// Lists the newest turns with a checkpoint before their first call, newest first, at most `limit`.
    pub fn newest_turns(&self, limit: usize) -> Result<Vec<CheckpointedTurn>, CheckpointError> {
        let mut records = self.records()?;
        records.sort_by_key(|(_, record)| std::cmp::Reverse(record.began()));
        let records = records.iter().filter(|(_, record)| record.has_checkpoint());
        let turns = records.filter_map(|(path, record)| {
            Some(CheckpointedTurn {
                session_id: record.session_id,
                turn_id: turn_id_of_path(path)?,
            })
        });
        Ok(turns.take(limit).collect())
    }

    /// Returns the session of a turn that has a checkpoint before its first call.
    pub fn session_of(&self, turn_id: TurnId) -> Result<Option<SessionId>, CheckpointError> {
        let record = self.record(turn_id)?.filter(TurnRecord::has_checkpoint);
        Ok(record.map(|record| record.session_id))
    }

    /// Takes checkpoints for calls that an earlier process left without an end. Call it before any other call, once no process of those calls is
    /// running. A failure is logged, and the call stays without an end.
    pub fn end_cut_off_calls(&self, environments: &Environments) {
        let records = match self.records() {
            Ok(records) => records,
            Err(error) => return tracing::warn!(%error, "calls that were cut off have no end"),
        };
        for (path, record) in records {
            let Some(turn_id) = turn_id_of_path(&path) else {
                continue;
            };
            let turn = CheckpointedTurn {
                session_id: record.session_id,
                turn_id,
            };
            for call in record.calls.iter().filter(|call| call.is_open()) {
                let ended = resolve_root(environments, &call.root, Some(&call.environment))
                    .and_then(|at| self.take(&at))
                    .and_then(|after| {
                        self.change_record(turn, |calls| {
                            end_call(calls, call.number, after, CallEndKind::CutOff);
                        })
                    });
                if let Err(error) = ended {
                    let root = call.root.display();
                    tracing::warn!(%root, %error, "a call that was cut off has no end");
                }
            }
        }
    }

    /// Removes the records of a session's turns. A fork that shares them gets an error when it undoes them.
    pub fn forget(&self, session_id: SessionId) -> Result<(), CheckpointError> {
        let locked = self.lock_for_removal();
        let _changing = lock(&self.shared.records);
        let mut records = self.records()?;
        let own: Vec<_> = records
            .iter_mut()
            .filter(|(_, record)| record.session_id == session_id)
            .collect();
        if own.is_empty() {
            return Ok(());
        }
        for (path, record) in own {
            record.calls.truncate(1);
            for call in &mut record.calls {
                call.before =
                    InitialCheckpoint::NotTaken("its conversation was removed".to_owned());
                call.after = None;
            }
            write_json(path, record, Fsync::Yes)?;
        }
        self.retain_newest(&locked, &groups(&records), u64::MAX)?;
        Ok(())
    }
}

impl CheckpointedCall {
    /// Takes a checkpoint after the call. A failure is logged; the call's changes are then unknown.
    pub fn end(self) {
        self.end_with(None);
    }

    /// Like `end`, for a call that only wrote these files.
    pub(crate) fn end_with(self, own: Option<Vec<OwnWrite>>) {
        let ended = if self.has_checkpoint {
            self.record_end(own)
        } else {
            // Without the state before, the state after is useless.
            Ok(())
        };
        if let Err(error) = ended.and_then(|()| self.checkpoints.prune()) {
            let root = self.at.root_path().display();
            tracing::warn!(%root, %error, "the changes of a call are not recorded");
        }
    }

    fn record_end(&self, own: Option<Vec<OwnWrite>>) -> Result<(), CheckpointError> {
        // Prevents removal of the checkpoint until the record refers to it.
        let guard = self.checkpoints.enter();
        let after = self.checkpoints.take_in(&guard, &self.at)?;
        let kind = if self.work.is_shared() {
            CallEndKind::Concurrent { own }
        } else {
            CallEndKind::Alone
        };
        let end = |calls: &mut Vec<CallRecord>| end_call(calls, self.number, after, kind);
        self.checkpoints.change_record(self.turn, end)
    }
}

#[derive(Debug)]
enum CallEndKind {
    Alone,
    /// Calls of other turns ran at the same time.
    Concurrent {
        own: Option<Vec<OwnWrite>>,
    },
    CutOff,
}

/// Returns the next position in the turn's sequence of starts and ends.
fn next_position(calls: &[CallRecord]) -> u64 {
    let positions = calls.iter().map(|call| call.ended.max(Some(call.number)));
    positions.max().flatten().map_or(0, |last| last + 1)
}

/// Records the state after a call. A call without changes is removed from the record.
fn end_call(calls: &mut Vec<CallRecord>, number: u64, after: CheckpointId, kind: CallEndKind) {
    let Some(index) = calls.iter().position(|call| call.number == number) else {
        return;
    };
    let is_unchanged = calls[index].before == InitialCheckpoint::Taken(after.clone());
    let is_shared = matches!(kind, CallEndKind::Concurrent { .. });
    if is_unchanged && !is_shared {
        calls.remove(index);
        return;
    }
    let ended = next_position(calls);
    let call = &mut calls[index];
    call.after = Some(after);
    call.ended = Some(ended);
    call.is_shared = is_shared;
    call.is_cut_off = matches!(kind, CallEndKind::CutOff);
    if let CallEndKind::Concurrent { own } = kind {
        call.own = own;
    }
}

impl TurnRecord {
    /// Returns whether a checkpoint was taken before its first call.
    fn has_checkpoint(&self) -> bool {
        let first = self.calls.first();
        first.is_some_and(|call| matches!(call.before, InitialCheckpoint::Taken(_)))
    }

    /// Returns the start time of its first call.
    fn began(&self) -> i64 {
        self.calls.first().map_or(0, |call| call.began)
    }
}

/// Returns the checkpoints that each of these turns refers to.
fn groups(records: &[(PathBuf, TurnRecord)]) -> Vec<CheckpointGroup> {
    let calls = records.iter().map(|(_, record)| record.calls.iter());
    calls
        .map(|calls| calls.flat_map(CallRecord::checkpoints).collect())
        .collect()
}

/// Returns the turn ID in the file name of a record.
fn turn_id_of_path(path: &Path) -> Option<TurnId> {
    let name = path.file_stem()?.to_str()?;
    Some(TurnId::from_uuid(name.parse().ok()?))
}

fn read_record(bytes: &[u8]) -> Option<TurnRecord> {
    let record: TurnRecord = serde_json::from_slice(bytes).ok()?;
    (record.version == VERSION).then_some(record)
}

/// Returns whether two workspaces are the same or one contains the other.
fn overlap(a: &Path, b: &Path) -> bool {
    a.starts_with(b) || b.starts_with(a)
}
