//! The writer's side of the newest rows.

use std::sync::Arc;

use super::newest::{Listed, Load, NewestRuns, News, Rows};

/// How far back a row is looked for that a newer one stands for.
const JUST_BEFORE: usize = 64;

/// Rows that the table does not have, as the running commit leaves them.
#[derive(Debug)]
pub(crate) struct Unwritten<R> {
    newest: Arc<NewestRuns<R>>,
    /// What this commit does to the newest rows.
    news: Vec<News<R>>,
    /// How much of that there was when the running job began.
    before: usize,
}

impl<R: Listed> Unwritten<R> {
    pub(crate) fn new(rows: Rows<R>) -> Self {
        Self {
            newest: Arc::new(NewestRuns::new(rows)),
            news: Vec::new(),
            before: 0,
        }
    }

    /// Returns the newest rows, to be shared with those who list.
    pub(crate) fn newest(&self) -> Arc<NewestRuns<R>> {
        Arc::clone(&self.newest)
    }

    /// Notes what a run has become. Only the last state in a job matters, so one that was noted just before is not kept; a job that
    /// notes many, such as an import, is not searched through for each of them.
    pub(crate) fn note(&mut self, row: Arc<R>) {
        let of_job = self.news[self.before..].iter_mut().rev().take(JUST_BEFORE);
        let rows = of_job.map_while(|news| match news {
            News::Row(known) => Some(known),
            News::Gone(_) => None,
        });
        let mut same = rows.filter(|known| known.position() == row.position());
        match same.next() {
            Some(known) => *known = row,
            None => self.news.push(News::Row(row)),
        }
    }

    /// Forgets the rows of a stream: the table has them, or nothing has.
    pub(crate) fn give_up(&mut self, stream: u64) {
        self.news.push(News::Gone(stream));
    }

    /// Returns a row of a stream, where the table does not have it as it is.
    pub(crate) fn get(&self, stream: u64, position: u64) -> Option<R> {
        for news in self.news.iter().rev() {
            match news {
                News::Row(row) if row.position() == position => return Some(R::clone(row)),
                News::Gone(gone) if *gone == stream => return None,
                _ => {}
            }
        }
        self.newest.at(position)
    }

    /// Returns the rows that are asked for.
    pub(crate) fn rows(&self, is_one: impl Fn(&R) -> bool) -> Rows<R> {
        let mut rows = self.newest.rows(&is_one);
        for news in &self.news {
            match news {
                News::Row(row) if is_one(row) => {
                    rows.insert(row.position(), Arc::clone(row));
                }
                News::Row(row) => drop(rows.remove(&row.position())),
                News::Gone(stream) => rows.retain(|_, row| row.stream() != *stream),
            }
        }
        rows
    }

    /// Tells how much there may be.
    pub(super) fn load(&self) -> Load {
        let mut load = self.newest.load();
        for news in &self.news {
            if let News::Row(row) = news {
                load.rows += 1;
                load.bytes += row.size();
            }
        }
        load
    }

    /// Begins a job: what it changes here can be taken back until the next one begins.
    pub(crate) fn begin(&mut self) {
        self.before = self.news.len();
    }

    pub(crate) fn take_back(&mut self) {
        self.news.truncate(self.before);
    }

    /// Forgets what this commit does.
    pub(crate) fn forget_news(&mut self) {
        self.news.clear();
        self.before = 0;
    }

    /// Shows what the commit has made durable.
    pub(super) fn publish(&mut self) {
        if !self.news.is_empty() {
            self.newest.publish(self.news.drain(..));
        }
        self.before = 0;
    }

    /// Forgets all rows: the table has them, durably.
    pub(super) fn clear(&mut self) {
        self.forget_news();
        self.newest.clear();
    }
}
