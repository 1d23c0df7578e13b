//! Every store passes every rule of the suite, with one test for each.

use windlass_core::traits::SessionFileSystem;
use windlass_store::conformance::{
    ConformanceCheck, FILE_CHECKS, FILE_CHECKS_OF_SEPARATE_SESSIONS,
};

use crate::support::FileSystemRef;

async fn check_rule(name: &str, files: FileSystemRef) {
    let mut checks = FILE_CHECKS.iter().chain(FILE_CHECKS_OF_SEPARATE_SESSIONS);
    let check = checks.find(|check| check.name == name).unwrap();
    check.run(files).await.unwrap();
}

fn names(checks: &[ConformanceCheck<dyn SessionFileSystem>]) -> Vec<&str> {
    checks.iter().map(|check| check.name).collect()
}

/// Generates a test for each listed rule, and one that checks the list.
macro_rules! rule_tests {
    ($make:ident, $checks:expr, $($name:ident)*) => {
        $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
        async fn $name() {
            let (files, _guard) = $make();
            crate::rules::check_rule(stringify!($name), files).await;
        })*

        #[test]
        fn all_rules_are_tested() {
            assert_eq!(crate::rules::names($checks), [$(stringify!($name)),*]);
        }
    };
}

macro_rules! test_all_rules {
    ($make:ident) => {
        rule_tests! { $make, windlass_store::conformance::FILE_CHECKS,
            written_files_read_back_with_their_parents
            bytes_and_encoding_round_trip
            missing_path_is_empty
            root_is_a_directory
            listing_contains_direct_children_in_byte_order
            r59_missing_file_differs_from_empty_directory
            delete_returns_whether_it_deleted
            conditional_write_requires_the_expected_content
            r50_dot_dot_is_refused_everywhere
            r50_dots_in_a_name_are_normal
            r51_spellings_of_a_path_are_one_path
            r52_recursive_delete_spares_read_only_files
            r53_delete_removes_the_read_only_mark
            r54_files_and_directories_do_not_replace_each_other
            r55_size_is_the_decoded_length
            r55_invalid_base64_is_refused
            r56_grep_takes_a_regular_expression
            r56_invalid_pattern_is_an_error
            r56_hits_are_ordered_by_path_and_line
            r56_hits_and_lines_are_limited
            r56_only_text_is_searched
            r58_root_and_read_only_files_cannot_be_deleted
            read_only_files_cannot_be_written
            r60_one_of_many_conditional_writes_succeeds
            r60_readers_never_see_half_a_file
            r61_list_and_stat_show_read_only
            invalid_names_are_refused
            names_are_case_sensitive
            odd_names_and_contents_round_trip
            unknown_encoding_is_refused
        }
    };
}

macro_rules! test_separate_sessions {
    ($make:ident) => {
        mod separate_sessions {
            use super::$make;
            rule_tests! { $make, windlass_store::conformance::FILE_CHECKS_OF_SEPARATE_SESSIONS,
                r62_sessions_never_see_each_other
                forgotten_session_has_no_files
            }
        }
    };
}

mod memory {
    use std::sync::Arc;

    use windlass_store::InMemorySessionFileStore;

    use crate::support::FileSystemRef;

    fn memory() -> (FileSystemRef, ()) {
        (Arc::new(InMemorySessionFileStore::new()), ())
    }
    test_all_rules!(memory);
    test_separate_sessions!(memory);
}

mod guarded_memory {
    use std::sync::Arc;

    use windlass_store::{
        ApprovalGatingFileStore, InMemorySessionFileStore, WriteBlocklistFileStore,
    };

    use crate::support::{Always, FileSystemRef};

    fn guarded() -> (FileSystemRef, ()) {
        let memory = Arc::new(InMemorySessionFileStore::new());
        let guarded = Arc::new(WriteBlocklistFileStore::new(memory));
        let guarded = ApprovalGatingFileStore::new(guarded, Arc::new(Always(true)));
        (Arc::new(guarded), ())
    }
    // The gate makes two calls of its store for one, so that several new files can be approved at once. The rules of conditional writes still hold.
    test_all_rules!(guarded);
    test_separate_sessions!(guarded);
}

#[cfg(all(feature = "real-disk", target_os = "linux"))]
mod real_disk {
    use std::sync::Arc;

    use tempfile::TempDir;
    use windlass_store::RealDiskFileStore;

    use crate::support::FileSystemRef;

    fn real_disk() -> (FileSystemRef, TempDir) {
        let root = TempDir::new().unwrap();
        (Arc::new(RealDiskFileStore::new(root.path()).unwrap()), root)
    }
    test_all_rules!(real_disk);
}

#[cfg(all(feature = "real-disk", target_os = "linux"))]
mod guarded_real_disk {
    use std::sync::Arc;

    use tempfile::TempDir;
    use windlass_store::{ApprovalGatingFileStore, RealDiskFileStore, WriteBlocklistFileStore};

    use crate::support::{Always, FileSystemRef};

    fn guarded() -> (FileSystemRef, TempDir) {
        let root = TempDir::new().unwrap();
        let disk = Arc::new(RealDiskFileStore::new(root.path()).unwrap());
        let gated = ApprovalGatingFileStore::new(disk, Arc::new(Always(true)));
        (
            Arc::new(WriteBlocklistFileStore::new(Arc::new(gated))),
            root,
        )
    }
    test_all_rules!(guarded);
}

#[cfg(feature = "sqlite")]
mod sqlite {
    use std::sync::Arc;

    use tempfile::TempDir;
    use tokio::runtime::Handle;
    use windlass_store::{SqliteOptions, SqliteStore};

    use crate::support::FileSystemRef;

    fn sqlite() -> (FileSystemRef, (SqliteStore, TempDir)) {
        let home = TempDir::new().unwrap();
        let opening = SqliteStore::open(SqliteOptions::new(home.path()));
        let store = tokio::task::block_in_place(|| Handle::current().block_on(opening)).unwrap();
        (Arc::new(store.files()), (store, home))
    }
    test_all_rules!(sqlite);
    test_separate_sessions!(sqlite);
}
