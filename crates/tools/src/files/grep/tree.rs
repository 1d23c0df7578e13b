//! Parallel search of the files of a tree, with results in the order of their paths.
//!
//! One thread walks the tree, and others search the files batch by batch. The files of a batch are searched in any order, and their results are added
//! in the order of the walk, so that the output is deterministic.

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;

use cap_std::fs::Dir;

use super::{Search, SearchResults, SearchedFile};
use crate::workspace::{FileError, FileWalk, ResolvedWorkspace, WalkEnd, WalkedFile};

/// Number of files in a batch. Their results are buffered until the batch is complete.
const BATCH: usize = 256;
/// Maximum number of directories in a batch, which stay open while one of their files waits.
const MAX_DIRECTORIES: usize = 32;
/// Number of files that justify another thread.
const PER_THREAD: usize = 16;
const MAX_THREADS: usize = 8;

/// The files to search.
pub(super) struct TreeSearch<'a> {
    pub(super) at: &'a ResolvedWorkspace,
    pub(super) start: &'a Path,
    pub(super) include_ignored: bool,
    pub(super) cancelled: &'a Arc<AtomicBool>,
}

/// A file found by the walk.
struct FileToSearch {
    parent: Arc<Dir>,
    name: String,
    path: PathBuf,
}

impl TreeSearch<'_> {
    pub(super) fn search(
        &self,
        search: &Search,
        results: &mut SearchResults,
    ) -> Result<WalkEnd, FileError> {
        // One batch waits while another is searched.
        let (send, batches) = sync_channel(1);
        thread::scope(|scope| {
            let walking = thread::Builder::new()
                .spawn_scoped(scope, || self.walk(search, send))
                .map_err(|error| FileError::io("search", self.at.shown(self.start), error))?;
            self.search_batches(search, results, batches);
            match walking.join() {
                Ok(end) => end,
                Err(panic) => std::panic::resume_unwind(panic),
            }
        })
    }

    fn walk(
        &self,
        search: &Search,
        send: SyncSender<Vec<FileToSearch>>,
    ) -> Result<WalkEnd, FileError> {
        let walk = FileWalk::new(self.at, self.include_ignored, Arc::clone(self.cancelled));
        let mut batch: Vec<FileToSearch> = Vec::new();
        let mut directories = 0;
        let end = walk.files(self.start, |WalkedFile { parent, name, path }| {
            if !search.includes(path, self.start) {
                return ControlFlow::Continue(());
            }
            let last = batch.last();
            if !last.is_some_and(|last| Arc::ptr_eq(&last.parent, parent)) {
                directories += 1;
            }
            batch.push(FileToSearch {
                parent: Arc::clone(parent),
                name: name.to_owned(),
                path: path.to_owned(),
            });
            if batch.len() < BATCH && directories < MAX_DIRECTORIES {
                return ControlFlow::Continue(());
            }
            directories = 0;
            match send.send(std::mem::take(&mut batch)) {
                Ok(()) => ControlFlow::Continue(()),
                Err(_) => ControlFlow::Break(()),
            }
        });
        let _ = send.send(batch);
        end
    }

    /// Searches batches. The walking thread stops when the receiver is dropped.
    fn search_batches(
        &self,
        search: &Search,
        results: &mut SearchResults,
        batches: Receiver<Vec<FileToSearch>>,
    ) {
        for batch in batches {
            for file in self.search_batch(search, &batch) {
                if results.add(file, search).is_break() {
                    return;
                }
            }
        }
    }

    fn search_batch(&self, search: &Search, batch: &[FileToSearch]) -> Vec<SearchedFile> {
        let cores = thread::available_parallelism().map_or(1, usize::from);
        let threads = cores.min(MAX_THREADS).min(batch.len() / PER_THREAD).max(1);
        let next = AtomicUsize::new(0);
        let search_next = || {
            let mut done = Vec::new();
            while !self.cancelled.load(Ordering::Relaxed) {
                let index = next.fetch_add(1, Ordering::Relaxed);
                let Some(file) = batch.get(index) else { break };
                done.push((index, self.file(search, file)));
            }
            done
        };
        let mut done = thread::scope(|scope| {
            // If a thread cannot be started, the other threads search its files.
            let others: Vec<_> = (1..threads)
                .filter_map(|_| thread::Builder::new().spawn_scoped(scope, search_next).ok())
                .collect();
            let mut done = search_next();
            for other in others {
                match other.join() {
                    Ok(more) => done.extend(more),
                    Err(panic) => std::panic::resume_unwind(panic),
                }
            }
            done
        });
        done.sort_unstable_by_key(|(index, _)| *index);
        done.into_iter().map(|(_, file)| file).collect()
    }

    fn file(&self, search: &Search, file: &FileToSearch) -> SearchedFile {
        let opened = self
            .at
            .open_in(&file.parent, Path::new(&file.name), &file.path);
        search.file(|| self.at.shown(&file.path), opened)
    }
}
