//! Undoes turns: a fork without the last turns, and the files in the state before them.

use std::path::PathBuf;

use serde_json::json;
use windlass_protocol::{PatchResult, PatchUndone, RestoredFiles, UndoThread, UndoneThread};
use windlass_store::queries::TurnRow;
use windlass_tools::{CheckpointError, CutOffCalls, RestoreReport, TurnToUndo};

use crate::operations::prelude::*;
use crate::operations::threads::fork::ForkPoint;
use crate::operations::threads::retry::input_text;
use crate::threads::FoundThread;

/// Maximum number of paths in an error.
const MAX_PATHS: usize = 1000;
/// Maximum number of files in a summary.
const MAX_SHOWN: usize = 20;

impl Handle<op::UndoThread> for Service {
    async fn handle(
        &self,
        ctx: &RequestContext,
        call: Call<op::UndoThread>,
    ) -> Result<UndoneThread> {
        self.undo_turns(ctx, &call.path.id, call.request).await
    }
}

impl Handle<op::PatchUndoThread> for Service {
    async fn handle(
        &self,
        ctx: &RequestContext,
        call: Call<op::PatchUndoThread>,
    ) -> Result<PatchUndone> {
        let request = UndoThread {
            files: true,
            ..call.request
        };
        let undone = self.undo_turns(ctx, &call.path.id, request).await?;
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
        ctx: &RequestContext,
        id: &str,
        UndoThread {
            depth,
            files,
            cut_off,
        }: UndoThread,
    ) -> Result<UndoneThread> {
        let parent = self.find(id).await?;
        let existing = self.already_created(ctx).await?;
        let turn = self.turn_to_drop(&parent, depth, existing.as_ref());
        let turn = turn.await?;
        let original_user_text = input_text(self.first_input(&parent, &turn).await?.as_deref());
        let mut restored = None;
        let fork = match existing {
            // Its files were restored before the fork was created.
            Some(fork) => fork,
            None => {
                self.reserve_thread(ctx.caller.agent()).await?;
                if files {
                    restored = Some(self.restore_files(&parent, &turn, cut_off).await?);
                }
                let cut = ForkPoint::before(&parent, &turn, depth);
                self.create_fork(ctx, &parent, cut).await?
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
    pub(crate) async fn restore_files(
        &self,
        parent: &FoundThread,
        first: &TurnRow,
        cut_off: bool,
    ) -> Result<RestoredFiles> {
        let Some(checkpoints) = self.settings.environments.checkpoints() else {
            let text = "this daemon stores no checkpoints of files; set checkpoints.enabled, or undo without files";
            return Err(ApiError::new(ErrorCode::FilesNotKept, text));
        };
        let mut dropped = Vec::new();
        let is_first = |turn: &TurnRow| {
            dropped.push(turn.clone());
            turn.view.id == first.view.id
        };
        self.newest_turn_where(parent, is_first).await?;
        if let Some(open) = dropped.iter().find(|turn| !turn.view.is_ended()) {
            return Err(ApiError::turn_active(parent.visible_turn_id(open)));
        }
        let turns: Vec<_> = dropped.iter().rev().map(undone_turn).collect();
        let environments = self.settings.environments.clone();
        let cut_off = if cut_off {
            CutOffCalls::TakeBack
        } else {
            CutOffCalls::Refuse
        };
        let restoring =
            tokio::task::spawn_blocking(move || checkpoints.undo(&environments, &turns, cut_off));
        let restored = restoring.await.map_err(ApiError::internal)?;
        restored.map(wire_files).map_err(checkpoint_error)
    }
}

fn undone_turn(turn: &TurnRow) -> TurnToUndo {
    let outline = &turn.view.outline;
    let started_at = outline.started_at.or(outline.created_at);
    TurnToUndo {
        turn_id: turn.view.id,
        began: started_at
            .and_then(|at| at.timestamp_nanos_opt())
            .unwrap_or_default(),
    }
}

fn wire_files(restored: RestoreReport) -> RestoredFiles {
    RestoredFiles {
        restored: texts(&restored.changed),
        left: texts(&restored.left),
    }
}

fn texts(paths: &[PathBuf]) -> Vec<String> {
    let texts = paths.iter().map(|path| path.display().to_string());
    texts.collect()
}

pub(crate) fn checkpoint_error(error: CheckpointError) -> ApiError {
    let text = error.to_string();
    let first = |paths: &[PathBuf]| texts(&paths[..paths.len().min(MAX_PATHS)]);
    match error {
        CheckpointError::ExternalEdits { paths } => {
            let details = json!({ "paths": first(&paths), "count": paths.len() });
            ApiError::new(ErrorCode::FilesChanged, text).with(details)
        }
        CheckpointError::CutOff { paths } => {
            let details = json!({ "paths": first(&paths), "count": paths.len(), "cut_off": true });
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
