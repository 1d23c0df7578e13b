//! The rules of file systems.

mod changes;
mod contract;
mod grep;
mod inputs;
mod paths;
mod read_only;
mod separate;
mod subject;

use windlass_core::traits::SessionFileSystem;

use super::check::Check;

/// The rules of every file system.
pub const FILE_CHECKS: &[Check<dyn SessionFileSystem>] = checks![
    contract::written_files_read_back_with_their_parents,
    contract::bytes_and_encoding_are_kept,
    contract::what_is_missing_reads_as_nothing,
    contract::the_root_is_a_directory,
    contract::a_listing_holds_the_direct_children_in_byte_order,
    contract::r59_missing_file_and_empty_directory_can_be_told_apart,
    contract::delete_tells_whether_it_deleted,
    contract::a_conditional_write_needs_the_expected_content,
    paths::r50_dot_dot_is_refused_everywhere,
    paths::r50_dots_in_a_name_are_normal,
    paths::r51_spellings_of_a_path_are_one_path,
    read_only::r52_recursive_delete_spares_read_only_files,
    read_only::r53_no_mark_stays_after_a_delete,
    changes::r54_files_and_directories_do_not_replace_each_other,
    changes::r55_size_is_the_decoded_length,
    changes::r55_invalid_base64_is_refused,
    grep::r56_grep_takes_a_regular_expression,
    grep::r56_an_invalid_pattern_is_an_error,
    grep::r56_hits_are_ordered_by_path_and_line,
    grep::r56_hits_and_lines_are_limited,
    grep::r56_only_text_is_searched,
    read_only::r58_the_root_and_read_only_files_cannot_be_deleted,
    read_only::read_only_files_cannot_be_written,
    changes::r60_one_of_many_conditional_writes_succeeds,
    changes::r60_readers_never_see_half_a_file,
    read_only::r61_list_and_stat_show_read_only,
    inputs::names_that_no_store_takes_are_refused,
    inputs::names_that_differ_in_case_are_two,
    inputs::odd_names_and_contents_are_kept,
    inputs::an_unknown_encoding_is_refused,
];

/// The rules of file systems with separate files for each session.
pub const FILE_CHECKS_OF_SEPARATE_SESSIONS: &[Check<dyn SessionFileSystem>] = checks![
    separate::r62_sessions_never_see_each_other,
    separate::a_forgotten_session_has_no_files,
];
