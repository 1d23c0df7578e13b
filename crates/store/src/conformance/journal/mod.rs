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

use super::check::Check;
use crate::journal::Journal;

pub use gaps::gaps;

/// The rules of every journal.
pub const JOURNAL_CHECKS: &[Check<dyn Journal>] = checks![
    writing::numbers_go_on_from_one,
    writing::a_claim_fences_the_writer_before_it,
    writing::a_batch_that_does_not_follow_is_refused_whole,
    writing::an_empty_batch_changes_nothing,
    writing::a_removed_stream_is_gone_and_can_begin_again,
    turns::streams_with_open_turns_are_known,
    turns::where_a_stream_stands_is_known,
    reading::events_read_back_as_they_were_written,
    reading::a_page_holds_what_was_asked_for,
    reading::what_nobody_wrote_reads_as_nothing,
    reading::streams_are_separate_and_any_text_names_one,
    watching::watch_shows_the_newest_record,
    watching::watch_works_before_the_stream_exists,
    watching::watch_ends_with_its_stream,
    forking::a_fork_has_the_records_of_its_parent_and_goes_on_alone,
    forking::what_waits_in_the_parent_ends_in_the_fork,
    forking::a_fork_that_cannot_be_leaves_nothing,
    sharing::a_fork_can_be_forked_anywhere,
    sharing::a_parent_that_is_removed_is_gone_but_for_its_forks,
    sharing::what_is_shared_goes_with_the_last_fork,
    feed::all_records_come_in_the_order_of_their_appends,
    feed::what_a_fork_shares_comes_once,
    feed::what_was_removed_does_not_come,
    feed::a_reader_goes_on_where_it_was_while_others_write,
    feed::a_cursor_that_is_none_is_refused,
    feed::a_place_that_somebody_made_up_is_only_a_place,
    feed::watch_all_sees_an_append,
    concurrent::of_many_claims_one_writes_at_a_time,
    concurrent::many_streams_are_written_at_once,
    concurrent::readers_see_whole_batches,
];
