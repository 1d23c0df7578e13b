//! Undoes turns: a fork without the last turns, and the files in the state before them.

use std::path::PathBuf;

use chrono::{DateTime, Utc};
use serde_json::json;
use windlass_protocol::api::Call;
use windlass_protocol::operations as op;
use windlass_protocol::{
    ErrorCode, PatchResult, PatchUndone, RestoredFiles, UndoThread, UndoneThread,
};
use windlass_store::queries::TurnRow;
use windlass_tools::{CheckpointError, CutOffCalls, RestoreReport, TurnToUndo};

use super::RequestContext;
use super::fork::Cut;
use super::retry::said_in;
use crate::error::{ApiError, Result};
use crate::handle::Handle;
use crate::service::Service;
use crate::threads::FoundThread;

/// Maximum number of paths in an error.
const NAMED: usize = 1000;
/// Maximum number of files in a summary.
const MAX_SHOWN: usize = 20;

impl Handle<op::UndoThread> for Service {
    async fn handle(
        &self,
        context: &RequestContext,
        call: Call<op::UndoThread>,
    ) -> Result<UndoneThread> {
        self.undo_turns(context, &call.path.id, call.request).await
    }
}

impl Handle<op::PatchUndoThread> for Service {
    async fn handle(
        &self,
        context: &RequestContext,
        call: Call<op::PatchUndoThread>,
    ) -> Result<PatchUndone> {
        let request = UndoThread {
            files: true,
            ..call.request
        };
        let undone = self.undo_turns(context, &call.path.id, request).await?;
        Ok(PatchUndone {
            patch_result: patch_result(undone.files.as_ref()),
            undone,
        })
    }
}

fn patch_result(files: Option<&RestoredFiles>) -> PatchResult {
    let restored = files.map_or(&[][..], |files| &files.restored);
    let files_restored = !restored.is_empty();
    let shown = restored.iter().take(MAX_SHOWN).map(String::as_str);
    let shown: Vec<_> = shown.collect();
    let more = match restored.len().saturating_sub(shown.len()) {
        0 => String::new(),
        more => format!(", and {more} more"),
    };
    let summary = if files_restored {
        format!("Restored: {}{more}", shown.join(", "))
    } else {
        "The turns changed no files.".to_owned()
    };
    PatchResult {
        files_restored,
        summary: Some(summary),
        snapshot_label: files_restored.then(|| "pre-turn".to_owned()),
    }
}

impl Service {
    /// Creates a thread without the last turns of another one.
    async fn undo_turns(
        &self,
        context: &RequestContext,
        id: &str,
        UndoThread {
            depth,
            files,
            cut_off,
        }: UndoThread,
    ) -> Result<UndoneThread> {
        let parent = self.find(id).await?;
        let made = self.made_before(context).await?;
        let turn = self.turn_to_drop(&parent, depth, made.as_ref()).await?;
        let original_user_text = said_in(self.first_input(&parent, &turn).await?.as_deref());
        let mut restored = None;
        let fork = match made {
            // Its files were restored before the fork was created.
            Some(made) => made,
            None => {
                self.take_room(context).await?;
                if files {
                    restored = Some(self.restore_files(&parent, &turn, cut_off).await?);
                }
                let cut = Cut::before(&parent, &turn, depth);
                self.make_fork(context, &parent, cut).await?
            }
        };
        Ok(UndoneThread {
            thread: fork.thread,
            original_user_text,
            files: restored,
        })
    }

    /// Restores the files to their state before a turn. It runs after the limits are checked and before the fork is created, because it is the last
    /// step that can be rejected. A client that is interrupted in between repeats its request and finds the files restored.
    pub(super) async fn restore_files(
        &self,
        parent: &FoundThread,
        first: &TurnRow,
        cut_off: bool,
    ) -> Result<RestoredFiles> {
        let Some(checkpoints) = self.settings.environments.checkpoints() else {
            let text = "files are not kept here; set checkpoints.enabled, or undo without files";
            return Err(ApiError::new(ErrorCode::FilesNotKept, text));
        };
        let mut dropped = Vec::new();
        let is_first = |turn: &TurnRow| {
            dropped.push(turn.clone());
            turn.view.id == first.view.id
        };
        self.turn_back(parent, is_first).await?;
        if let Some(open) = dropped.iter().find(|turn| !turn.view.is_ended()) {
            return Err(ApiError::turn_active(parent.name_of(open)));
        }
        let turns: Vec<_> = dropped.iter().rev().map(undone).collect();
        let environments = self.settings.environments.clone();
        let cut_off = if cut_off {
            CutOffCalls::TakeBack
        } else {
            CutOffCalls::Refuse
        };
        let restoring =
            tokio::task::spawn_blocking(move || checkpoints.undo(&environments, &turns, cut_off));
        let restored = restoring.await.map_err(ApiError::internal)?;
        restored.map(told).map_err(refused)
    }
}

fn undone(turn: &TurnRow) -> TurnToUndo {
    let outline = &turn.view.outline;
    let began = outline.started_at.or(outline.created_at);
    TurnToUndo {
        turn_id: turn.view.id,
        began: began.and_then(nanos).unwrap_or_default(),
    }
}

fn nanos(time: DateTime<Utc>) -> Option<i64> {
    time.timestamp_nanos_opt()
}

fn told(restored: RestoreReport) -> RestoredFiles {
    let shown = |paths: Vec<PathBuf>| {
        let shown = paths.iter().map(|path| path.display().to_string());
        shown.collect()
    };
    RestoredFiles {
        restored: shown(restored.changed),
        left: shown(restored.left),
    }
}

fn named(paths: &[PathBuf]) -> Vec<String> {
    let named = paths.iter().take(NAMED);
    named.map(|path| path.display().to_string()).collect()
}

pub(super) fn refused(error: CheckpointError) -> ApiError {
    let text = error.to_string();
    match error {
        CheckpointError::ExternalEdits { paths } => {
            let details = json!({ "paths": named(&paths), "count": paths.len() });
            ApiError::new(ErrorCode::FilesChanged, text).with(details)
        }
        CheckpointError::CutOff { paths } => {
            let details = json!({ "paths": named(&paths), "count": paths.len(), "cut_off": true });
            ApiError::new(ErrorCode::FilesChanged, text).with(details)
        }
        CheckpointError::Busy { .. } => ApiError::new(ErrorCode::FilesBusy, text),
        CheckpointError::RolledBack { path, .. } | CheckpointError::Incomplete { path, .. } => {
            ApiError::new(ErrorCode::FilesNotRestored, text)
                .with(json!({ "path": path.display().to_string() }))
        }
        CheckpointError::Io { .. } => ApiError::internal(text),
        CheckpointError::TooLarge { .. }
        | CheckpointError::NotTaken { .. }
        | CheckpointError::NotRecorded
        | CheckpointError::Gone { .. }
        | CheckpointError::Damaged { .. }
        | CheckpointError::ReadOnly { .. }
        | CheckpointError::Moved { .. } => ApiError::new(ErrorCode::FilesNotKept, text),
    }
}
