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

use super::check::Check;
use crate::journal::Journal;
use crate::queries::Queries;
use crate::runs::RunLog;

/// A store under test: its writers and its queries.
pub struct Stored {
    /// Stores the streams of the sessions.
    pub journal: Arc<dyn Journal>,
    /// The runs from outside.
    pub runs: Arc<dyn RunLog>,
    /// Queries over both.
    pub queries: Arc<dyn Queries>,
}

/// The rules of the queries of every store.
pub const QUERY_CHECKS: &[Check<Stored>] = checks![
    threads::threads_are_listed_by_their_last_update,
    threads::a_thread_is_shown_as_it_is,
    threads::the_record_of_the_host_says_whose_and_whether_archived,
    threads::the_newest_words_and_sums_are_shown,
    threads::a_search_finds_what_is_shown,
    threads::threads_are_counted,
    threads::a_removed_thread_is_gone_from_everything,
    turns::turns_are_listed_from_both_ends,
    turns::a_turn_is_shown_with_its_items,
    turns::the_text_of_an_open_turn_is_shown,
    turns::a_thread_is_shown_with_its_newest_turns,
    waits::what_waits_is_known_everywhere_until_it_is_over,
    waits::the_end_of_a_turn_ends_its_waits,
    usage::turns_are_summed_by_day_model_provider_and_thread,
    usage::only_turns_that_ended_in_the_time_count,
    usage::usage_outlives_its_thread,
    usage::a_shared_turn_is_counted_once_also_after_its_parent_is_removed,
    runs::turns_are_runs_of_their_agents,
    runs::runs_of_both_kinds_are_one_list,
    runs::runs_are_listed_by_agent_and_status,
    forks::a_fork_shows_what_it_shares_and_counts_its_own,
    forks::a_fork_keeps_its_turns_when_its_parent_is_removed,
    cursors::a_cursor_that_is_none_is_refused,
    cursors::pages_do_not_repeat_what_moves,
    cursors::a_place_that_somebody_made_up_is_only_a_place,
];
