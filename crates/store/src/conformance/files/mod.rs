//! The rules of file systems.

mod changes;
mod contract;
mod grep;
mod inputs;
mod paths;
mod read_only;
mod session_isolation;
mod subject;

use windlass_core::traits::SessionFileSystem;

use super::check::ConformanceCheck;

/// The rules of every file system.
pub const FILE_CHECKS: &[ConformanceCheck<dyn SessionFileSystem>] = checks![
    contract::written_files_read_back_with_their_parents,
    contract::bytes_and_encoding_round_trip,
    contract::missing_path_is_empty,
    contract::root_is_a_directory,
    contract::listing_contains_direct_children_in_byte_order,
    contract::r59_missing_file_differs_from_empty_directory,
    contract::delete_returns_whether_it_deleted,
    contract::conditional_write_requires_the_expected_content,
    paths::r50_dot_dot_is_refused_everywhere,
    paths::r50_dots_in_a_name_are_normal,
    paths::r51_spellings_of_a_path_are_one_path,
    read_only::r52_recursive_delete_spares_read_only_files,
    read_only::r53_delete_removes_the_read_only_mark,
    changes::r54_files_and_directories_do_not_replace_each_other,
    changes::r55_size_is_the_decoded_length,
    changes::r55_invalid_base64_is_refused,
    grep::r56_grep_takes_a_regular_expression,
    grep::r56_invalid_pattern_is_an_error,
    grep::r56_hits_are_ordered_by_path_and_line,
    grep::r56_hits_and_lines_are_limited,
    grep::r56_only_text_is_searched,
    read_only::r58_root_and_read_only_files_cannot_be_deleted,
    read_only::read_only_files_cannot_be_written,
    changes::r60_one_of_many_conditional_writes_succeeds,
    changes::r60_readers_never_see_half_a_file,
    read_only::r61_list_and_stat_show_read_only,
    inputs::invalid_names_are_refused,
    inputs::names_are_case_sensitive,
    inputs::odd_names_and_contents_round_trip,
    inputs::unknown_encoding_is_refused,
];

/// The rules of file systems with separate files for each session.
pub const FILE_CHECKS_OF_SEPARATE_SESSIONS: &[ConformanceCheck<dyn SessionFileSystem>] = checks![
    session_isolation::r62_sessions_never_see_each_other,
    session_isolation::forgotten_session_has_no_files,
];
