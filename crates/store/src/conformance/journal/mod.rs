//! The rules of journals.

mod concurrent;
mod feed;
mod forking;
mod gaps;
mod reading;
mod sharing;
mod subject;
mod turns;
mod watching;
mod writing;

use super::check::ConformanceCheck;
use crate::journal::Journal;

pub use gaps::gaps;

/// The rules of every journal.
pub const JOURNAL_CHECKS: &[ConformanceCheck<dyn Journal>] = checks![
    writing::numbers_start_at_one_and_are_consecutive,
    writing::claim_fences_the_previous_writer,
    writing::batch_out_of_sequence_is_refused_whole,
    writing::empty_batch_changes_nothing,
    writing::removed_stream_can_be_recreated,
    turns::open_lists_streams_with_open_turns,
    turns::status_returns_head_and_open_turns,
    reading::events_read_back_as_they_were_written,
    reading::page_respects_cursor_and_limit,
    reading::unwritten_stream_is_empty,
    reading::streams_are_separate_and_accept_any_name,
    watching::watch_shows_the_newest_record,
    watching::watch_works_before_the_stream_exists,
    watching::watch_ends_with_its_stream,
    forking::fork_has_its_parents_records_and_continues_separately,
    forking::waiting_inputs_are_cancelled_in_the_fork,
    forking::refused_fork_leaves_nothing,
    sharing::fork_can_be_forked_at_any_record,
    sharing::removed_parent_remains_only_in_its_forks,
    sharing::shared_records_are_removed_with_the_last_fork,
    feed::feed_follows_the_order_of_appends,
    feed::shared_records_are_delivered_once,
    feed::removed_records_are_not_delivered,
    feed::feed_reader_continues_during_writes,
    feed::invalid_cursor_is_refused,
    feed::forged_cursor_is_only_a_position,
    feed::watch_all_sees_an_append,
    concurrent::concurrent_claims_write_one_at_a_time,
    concurrent::streams_are_written_concurrently,
    concurrent::readers_see_only_whole_batches,
];
