//! The rules of queries for threads, turns and runs.

mod cursors;
mod forks;
mod runs;
mod subject;
mod threads;
mod turns;
mod usage;
mod waits;

use std::sync::Arc;

use super::check::ConformanceCheck;
use crate::journal::Journal;
use crate::queries::Queries;
use crate::runs::RunLog;

/// A store under test: its writers and its queries.
pub struct QueryStores {
    /// Stores the streams of the sessions.
    pub journal: Arc<dyn Journal>,
    /// The runs from outside.
    pub runs: Arc<dyn RunLog>,
    /// Queries over both.
    pub queries: Arc<dyn Queries>,
}

/// The rules of the queries of every store.
pub const QUERY_CHECKS: &[ConformanceCheck<QueryStores>] = checks![
    threads::threads_are_listed_by_their_last_update,
    threads::thread_shows_its_current_state,
    threads::host_record_determines_owner_and_archival,
    threads::thread_shows_preview_and_totals,
    threads::search_covers_the_shown_fields,
    threads::threads_are_counted,
    threads::removed_thread_is_in_no_answer,
    turns::turns_are_listed_from_both_ends,
    turns::turn_detail_contains_its_items,
    turns::turn_detail_contains_streamed_text,
    turns::thread_detail_contains_the_newest_turns,
    turns::turns_are_listed_up_to_a_record,
    waits::waits_are_in_all_answers_until_they_end,
    waits::turn_end_closes_its_waits,
    usage::turns_are_summed_by_day_model_provider_and_thread,
    usage::usage_covers_turns_that_ended_in_the_period,
    usage::usage_outlives_its_thread,
    usage::shared_turn_counts_once_after_its_parent_is_removed,
    runs::turns_are_runs_of_their_agents,
    runs::runs_of_both_kinds_are_one_list,
    runs::runs_are_listed_by_agent_and_status,
    forks::fork_shows_shared_turns_and_counts_its_own,
    forks::fork_retains_its_turns_when_its_parent_is_removed,
    cursors::invalid_cursor_is_refused,
    cursors::pages_do_not_repeat_moved_threads,
    cursors::forged_cursor_is_only_a_position,
];
