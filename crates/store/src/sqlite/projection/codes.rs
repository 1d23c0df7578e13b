//! Words as small numbers. A number that was given out keeps its meaning: new words come at the end.

use rusqlite::types::Type;
use windlass_core::items::{ItemKind, ItemStatus, TurnStatus};
use windlass_core::message::MessageRole;

/// A word that is stored as its place in a list.
pub(super) trait Coded: Copy + PartialEq + 'static {
    const ALL: &'static [Self];

    fn code(self) -> i64 {
        let place = Self::ALL.iter().position(|word| *word == self);
        place.map_or(-1, |place| place as i64)
    }

    fn read(row: &rusqlite::Row<'_>, column: usize) -> rusqlite::Result<Self> {
        let code: i64 = row.get(column)?;
        let word = usize::try_from(code).ok().and_then(|at| Self::ALL.get(at));
        word.copied().ok_or_else(|| {
            let why = format!("{code} stands for nothing");
            rusqlite::Error::FromSqlConversionFailure(column, Type::Integer, why.into())
        })
    }
}

impl Coded for TurnStatus {
    const ALL: &'static [Self] = &[
        Self::InProgress,
        Self::Completed,
        Self::Failed,
        Self::Interrupted,
    ];
}

impl Coded for ItemStatus {
    const ALL: &'static [Self] = &[
        Self::InProgress,
        Self::Completed,
        Self::Failed,
        Self::Interrupted,
    ];
}

impl Coded for ItemKind {
    const ALL: &'static [Self] = &[
        Self::UserMessage,
        Self::AgentMessage,
        Self::AgentReasoning,
        Self::ToolCall,
        Self::FileChange,
        Self::CommandExecution,
        Self::ContextCompaction,
        Self::Status,
        Self::Error,
    ];
}

impl Coded for MessageRole {
    const ALL: &'static [Self] = &[Self::System, Self::User, Self::Agent, Self::ToolResult];
}
