//! The open tasks in memory: only numbers and IDs, so that a hundred thousand tasks take a few megabytes.
//!
//! The next task belongs to the owner with the fewest working tasks; among several, to the one served least. A new owner starts with the
//! lowest count of the others, so that absence earns no credit. A parked task needs no worker; an owner with many parked tasks starts no
//! further ones. A hold that applies to the owner, such as a used-up budget, also holds the owner's other tasks.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use chrono::{DateTime, Utc};

use super::task::{Task, TaskId, TaskState};
use crate::dispatch::PARKED_OF_OWNER;

/// The open tasks.
#[derive(Debug, Default)]
pub(super) struct Queue {
    owners: BTreeMap<Arc<str>, OwnerQueue>,
    /// Tasks that wait for their retry time.
    delayed: BTreeMap<(DateTime<Utc>, u64), Delayed>,
    running: HashMap<TaskId, RunningTask>,
    queued: usize,
}

/// A task that waits for its retry time.
#[derive(Debug)]
struct Delayed {
    id: TaskId,
    owner: Arc<str>,
    /// Whether a hold delays it, rather than a failed attempt.
    is_held: bool,
}

#[derive(Debug, Default)]
struct OwnerQueue {
    waiting: BTreeMap<u64, TaskId>,
    delayed: usize,
    running: usize,
    /// Approximate size of the rows of its tasks in bytes.
    bytes: u64,
    /// Number of its running tasks that are parked.
    parked: usize,
    /// No task of the owner starts before this time, because a hold applies to the owner.
    held_until: Option<DateTime<Utc>>,
    /// Number of its started tasks, plus the lowest count of the other owners when it was added.
    served: u64,
}

/// A task that runs.
#[derive(Debug, Clone)]
pub(super) struct RunningTask {
    pub(super) is_canceled: bool,
    owner: Arc<str>,
}

impl Queue {
    /// Adds an open task.
    pub(super) fn insert(&mut self, task: &Task) {
        let owner = self.owner(&task.owner);
        if task.end().is_none() {
            self.with(&owner, |entry| entry.bytes += task.spec.bytes());
        }
        match &task.state {
            TaskState::Queued { not_before: None } => {
                self.queued += 1;
                self.with(&owner, |entry| {
                    entry.waiting.insert(task.number, task.id);
                });
            }
            TaskState::Queued {
                not_before: Some(due),
            } => {
                self.queued += 1;
                self.with(&owner, |entry| {
                    entry.delayed += 1;
                    if task
                        .hold
                        .as_ref()
                        .is_some_and(|hold| hold.cause.applies_to_owner())
                    {
                        entry.held_until = entry.held_until.max(Some(*due));
                    }
                });
                let delayed = Delayed {
                    id: task.id,
                    owner,
                    is_held: task.hold.is_some(),
                };
                self.delayed.insert((*due, task.number), delayed);
            }
            TaskState::Running => {
                self.with(&owner, |entry| entry.running += 1);
                let running = RunningTask {
                    is_canceled: task.cancel_requested_at.is_some(),
                    owner,
                };
                self.running.insert(task.id, running);
            }
            TaskState::Ended(_) => {}
        }
    }

    /// Removes an open task, given its previous state.
    pub(super) fn remove(&mut self, task: &Task) {
        let owner: Arc<str> = task.owner.as_str().into();
        if task.end().is_none() {
            let bytes = task.spec.bytes();
            self.with(&owner, |entry| {
                entry.bytes = entry.bytes.saturating_sub(bytes)
            });
        }
        match &task.state {
            TaskState::Queued { not_before } => {
                self.queued -= 1;
                let waited = self.with(&owner, |entry| entry.waiting.remove(&task.number));
                if let (Some(None), Some(due)) = (waited, not_before)
                    && self.delayed.remove(&(*due, task.number)).is_some()
                {
                    self.with(&owner, |entry| entry.delayed -= 1);
                }
            }
            TaskState::Running => {
                self.running.remove(&task.id);
                self.with(&owner, |entry| entry.running -= 1);
            }
            TaskState::Ended(_) => {}
        }
        if self.owners.get(&owner).is_some_and(OwnerQueue::is_gone) {
            self.owners.remove(&owner);
        }
    }

    /// Removes a waiting task whose row cannot be read. Searches all owners, because this is rare.
    pub(super) fn skip_unreadable(&mut self, id: TaskId) {
        for owner in self.owners.values_mut() {
            let waiting = owner.waiting.len();
            owner.waiting.retain(|_, of| *of != id);
            self.queued -= waiting - owner.waiting.len();
        }
        self.owners.retain(|_, owner| !owner.is_gone());
    }

    /// Finds an owner, or adds one with the lowest count of the others.
    fn owner(&mut self, name: &str) -> Arc<str> {
        if let Some((known, _)) = self.owners.get_key_value(name) {
            return Arc::clone(known);
        }
        let served = self.owners.values().map(|owner| owner.served).min();
        let name: Arc<str> = name.into();
        let owner = OwnerQueue {
            served: served.unwrap_or_default(),
            ..OwnerQueue::default()
        };
        self.owners.insert(Arc::clone(&name), owner);
        name
    }

    fn with<T>(&mut self, owner: &str, change: impl FnOnce(&mut OwnerQueue) -> T) -> Option<T> {
        self.owners.get_mut(owner).map(change)
    }

    /// Replaces the previous state of a task. The new state is inserted first, so that its owner is not removed in between.
    pub(super) fn replace(&mut self, before: Option<&Task>, after: &Task) {
        if let (Some(running), TaskState::Running) = (self.running.get_mut(&after.id), &after.state)
        {
            running.is_canceled = after.cancel_requested_at.is_some();
            return;
        }
        self.insert(after);
        if let Some(before) = before {
            self.remove(before);
        }
    }

    /// Sets the counts from the stored rows. An owner without a row has not been served yet and gets the lowest count of the others.
    pub(super) fn restore_served(&mut self, rows: impl Iterator<Item = (String, u64)>) {
        let rows: HashMap<String, u64> = rows.collect();
        let known = self.owners.keys().filter_map(|name| rows.get(&**name));
        let least = known.min().copied().unwrap_or_default();
        for (name, owner) in &mut self.owners {
            owner.served = rows.get(&**name).copied().unwrap_or(least);
        }
    }

    /// Returns the approximate size of an owner's open tasks in bytes.
    pub(super) fn bytes_of(&self, owner: &str) -> u64 {
        self.owners.get(owner).map_or(0, |owner| owner.bytes)
    }

    /// Counts a started task of an owner.
    pub(super) fn serve(&mut self, owner: &str) {
        self.with(owner, |entry| entry.served += 1);
    }

    /// Returns the count of an owner; `None` if it has no open task.
    pub(super) fn served(&self, owner: &str) -> Option<u64> {
        self.owners.get(owner).map(|owner| owner.served)
    }

    /// Makes tasks available to workers whose delay has passed.
    pub(super) fn release_due(&mut self, now: DateTime<Utc>) {
        while let Some(entry) = self.delayed.first_entry() {
            if entry.key().0 > now {
                break;
            }
            let ((_, number), task) = entry.remove_entry();
            self.wait_for_worker(number, &task);
        }
    }

    /// Makes all held tasks available to workers.
    pub(super) fn release_held(&mut self) {
        let (held, delayed) = std::mem::take(&mut self.delayed)
            .into_iter()
            .partition(|(_, task)| task.is_held);
        self.delayed = delayed;
        let held: BTreeMap<_, Delayed> = held;
        for ((_, number), task) in held {
            self.wait_for_worker(number, &task);
        }
        self.owners
            .values_mut()
            .for_each(|owner| owner.held_until = None);
    }

    fn wait_for_worker(&mut self, number: u64, task: &Delayed) {
        self.with(&task.owner, |entry| {
            entry.delayed -= 1;
            entry.waiting.insert(number, task.id);
        });
    }

    /// Sets the parked tasks; returns the number of working ones.
    pub(super) fn set_parked(&mut self, parked: &HashSet<TaskId>) -> usize {
        let mut at_work = self.running.len();
        self.owners.values_mut().for_each(|owner| owner.parked = 0);
        for running in parked.iter().filter_map(|id| self.running.get(id)) {
            at_work -= 1;
            if let Some(owner) = self.owners.get_mut(&running.owner) {
                owner.parked += 1;
            }
        }
        at_work
    }

    /// Chooses the next tasks, as if each chosen one had been started.
    pub(super) fn next(&self, count: usize, now: DateTime<Utc>) -> Vec<TaskId> {
        let mut owners: Vec<_> = (self.owners.values())
            .filter(|owner| !owner.waiting.is_empty() && owner.parked < PARKED_OF_OWNER)
            .filter(|owner| owner.held_until.is_none_or(|until| until <= now))
            .map(|owner| (owner.at_work(), owner.served, owner.waiting.values()))
            .collect();
        let mut chosen = Vec::new();
        while chosen.len() < count {
            let next = owners
                .iter_mut()
                .min_by_key(|(running, served, _)| (*running, *served));
            let Some((running, served, waiting)) = next else {
                break;
            };
            match waiting.next() {
                Some(id) => {
                    chosen.push(*id);
                    *running += 1;
                    *served += 1;
                }
                None => *running = usize::MAX,
            }
            if owners.iter().all(|(running, ..)| *running == usize::MAX) {
                break;
            }
        }
        chosen
    }

    /// Returns the earliest end of a delay or hold.
    pub(super) fn next_due(&self, now: DateTime<Utc>) -> Option<DateTime<Utc>> {
        let delayed = self.delayed.keys().next().map(|(due, _)| *due);
        let waiting = (self.owners.values()).filter(|owner| !owner.waiting.is_empty());
        let held = waiting.filter_map(|owner| owner.held_until.filter(|until| *until > now));
        held.chain(delayed).min()
    }

    pub(super) fn running(&self) -> &HashMap<TaskId, RunningTask> {
        &self.running
    }

    pub(super) const fn queued(&self) -> usize {
        self.queued
    }

    pub(super) fn open(&self) -> usize {
        self.queued + self.running.len()
    }

    pub(super) fn open_of(&self, owner: &str) -> usize {
        let open = |owner: &OwnerQueue| owner.waiting.len() + owner.delayed + owner.running;
        self.owners.get(owner).map_or(0, open)
    }
}

impl OwnerQueue {
    fn at_work(&self) -> usize {
        self.running.saturating_sub(self.parked)
    }

    fn is_gone(&self) -> bool {
        self.waiting.is_empty() && self.delayed == 0 && self.running == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::JobSpec;
    use crate::tasks::task::TaskEvent;

    const NOW: DateTime<Utc> = DateTime::UNIX_EPOCH;

    fn task(number: u64, owner: &str) -> Task {
        let queued = TaskEvent::Queued {
            owner: owner.to_owned(),
            number,
            spec: Box::new(JobSpec::new("p")),
            retry_of: None,
        };
        let id = TaskId::from_seed(u128::from(number));
        Task::begin(id, DateTime::UNIX_EPOCH, &queued).unwrap()
    }

    fn start(queue: &mut Queue, tasks: &mut [Task], id: TaskId) {
        let task = tasks.iter_mut().find(|task| task.id == id).unwrap();
        let before = task.clone();
        task.evolve(DateTime::UNIX_EPOCH, &TaskEvent::Started { attempt: 1 });
        queue.replace(Some(&before), task);
        queue.serve(&task.owner);
    }

    #[test]
    fn owner_with_fewer_running_tasks_is_served_next() {
        let mut tasks: Vec<_> = (0..20).map(|n| task(n, "many")).collect();
        tasks.push(task(20, "few"));
        let mut queue = Queue::default();
        tasks.iter().for_each(|task| queue.insert(task));
        let ids = |numbers: &[u128]| {
            numbers
                .iter()
                .map(|n| TaskId::from_seed(*n))
                .collect::<Vec<_>>()
        };
        assert_eq!(queue.next(3, NOW), ids(&[20, 0, 1]));
        start(&mut queue, &mut tasks, TaskId::from_seed(0));
        assert_eq!(queue.next(2, NOW), ids(&[20, 1]));
    }

    #[test]
    fn new_owner_gets_no_credit_for_absence() {
        let mut tasks: Vec<_> = (0..9).map(|n| task(n, "old")).collect();
        let mut queue = Queue::default();
        tasks.iter().for_each(|task| queue.insert(task));
        for n in 0..5 {
            start(&mut queue, &mut tasks, TaskId::from_seed(n));
        }
        queue.insert(&task(100, "new"));
        assert_eq!(
            (queue.served("old"), queue.served("new")),
            (Some(5), Some(5))
        );
    }

    #[test]
    fn owner_without_open_tasks_is_removed() {
        let one = task(1, "a");
        let mut queue = Queue::default();
        queue.insert(&one);
        queue.remove(&one);
        assert_eq!((queue.served("a"), queue.open()), (None, 0));
        assert!(queue.next(8, NOW).is_empty());
    }
}
