//! Invariants of the data after a kill.

use std::collections::{HashMap, HashSet};
use std::io::ErrorKind;
use std::path::Path;
use std::sync::Arc;

use windlass_core::events::{Event, EventData, ToolStatus};
use windlass_core::typed_id::ExecId;
use windlass_store::sqlite::{OpenCheck, SqliteError, SqliteOptions, SqliteStore};
use windlass_store::{Journal, StreamKey};
use windlass_turn::Thread;

use crate::child::{EFFECTS, SESSIONS, session_id};
use crate::restarts::check_crashes;

/// State after earlier kills, to detect later changes to it.
#[derive(Debug, Default)]
pub struct SeenState {
    /// Events seen per session.
    seen: HashMap<u128, Vec<Arc<Event>>>,
    /// Acknowledged inputs per session.
    acknowledged: HashMap<u128, Vec<String>>,
}

/// Results of a check.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CheckCounts {
    /// Turns that have ended.
    pub ended_turns: usize,
    /// Turns without an end.
    pub open_turns: usize,
    /// Calls with an unknown outcome after a kill.
    pub unknown_outcomes: usize,
    /// Times that a turn resumed after a kill.
    pub resumed: usize,
    /// Turns that crashed the child too often in a row and failed.
    pub given_up: usize,
    /// Forks that exist and are complete.
    pub forks: usize,
}

impl CheckCounts {
    /// Adds the results of another directory.
    pub fn add(&mut self, other: Self) {
        self.ended_turns += other.ended_turns;
        self.open_turns += other.open_turns;
        self.unknown_outcomes += other.unknown_outcomes;
        self.resumed += other.resumed;
        self.given_up += other.given_up;
        self.forks += other.forks;
    }
}

impl SeenState {
    /// Records an input that the child has acknowledged.
    pub fn acknowledge(&mut self, session: u128, input: &str) {
        self.acknowledged
            .entry(session)
            .or_default()
            .push(input.to_owned());
    }

    /// Returns whether no input was acknowledged and no event seen.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.acknowledged.is_empty() && self.seen.values().all(Vec::is_empty)
    }

    /// Checks everything. The error names the violated invariant.
    pub async fn check(&mut self, directory: &Path, is_final: bool) -> Result<CheckCounts, String> {
        let options = SqliteOptions::new(directory.join("store")).with_check(OpenCheck::Nothing);
        let store = match SqliteStore::open_read_only(options).await {
            Ok(store) => store,
            // A kill before the first open completed leaves no data, and nothing was acknowledged.
            Err(SqliteError::Io { source, .. })
                if source.kind() == ErrorKind::NotFound && self.is_empty() =>
            {
                return Ok(CheckCounts::default());
            }
            Err(error) => return Err(error.to_string()),
        };
        let report = store.verify().await.map_err(|error| error.to_string())?;
        if !report.findings.is_empty() {
            return Err(format!(
                "the journal does not verify: {:?}",
                report.findings
            ));
        }
        let mut figures = CheckCounts::default();
        for session in 0..SESSIONS {
            let events = read(&store, session).await?;
            self.check_session(session, &events, is_final, &mut figures)
                .map_err(|what| format!("session {session}: {what}"))?;
        }
        self.check_forks(&store, &mut figures).await?;
        check_effects(directory)?;
        Ok(figures)
    }

    /// Every other stream is a complete fork of one of the sessions.
    async fn check_forks(
        &self,
        store: &SqliteStore,
        figures: &mut CheckCounts,
    ) -> Result<(), String> {
        let streams = store.journal().streams().await;
        let sessions: HashMap<_, _> = (0..SESSIONS).map(|n| (session_id(n), n)).collect();
        let keys: HashSet<_> = sessions.keys().map(|id| StreamKey::from(*id)).collect();
        for stream in streams.map_err(|error| error.to_string())? {
            if keys.contains(&stream.key) || stream.head == 0 {
                continue;
            }
            let broken = |what: &str| format!("fork {}: {what}", stream.key);
            let events = read_stream(store, &stream.key).await?;
            check_numbers(&events).map_err(|what| broken(&what))?;
            let forked = events.iter().find_map(|event| match &event.data {
                EventData::SessionForked(data) => Some((event.seq(), data)),
                _ => None,
            });
            let (seq, forked) = forked.ok_or_else(|| broken("it has no fork event"))?;
            let parent = sessions.get(&forked.parent_session_id);
            let parent = parent.and_then(|n| self.seen.get(n));
            let shared = usize::try_from(forked.parent_sequence).unwrap_or(usize::MAX);
            let theirs = parent.and_then(|events| events.get(..shared));
            let theirs =
                theirs.ok_or_else(|| broken("it shares more events than its parent has"))?;
            let is_same = |(own, other): (&Arc<Event>, &Arc<Event>)| {
                (own.id, own.sequence, &own.data) == (other.id, other.sequence, &other.data)
            };
            if seq != forked.parent_sequence + 1 || !events.iter().zip(theirs).all(is_same) {
                return Err(broken("its first events differ from those of its parent"));
            }
            figures.forks += 1;
        }
        Ok(())
    }

    fn check_session(
        &mut self,
        session: u128,
        events: &[Arc<Event>],
        is_final: bool,
        figures: &mut CheckCounts,
    ) -> Result<(), String> {
        check_numbers(events)?;
        self.check_unchanged(session, events)?;
        let inputs: HashSet<&str> = events
            .iter()
            .filter_map(|event| input_text(event))
            .collect();
        for text in self.acknowledged.get(&session).into_iter().flatten() {
            if !inputs.contains(text.as_str()) {
                return Err(format!("the acknowledged input `{text}` is lost"));
            }
        }
        let counts = EventCounts::count(events)?;
        let thread = Thread::fold(session_id(session), events.iter().map(|event| &**event))
            .map_err(|error| error.to_string())?;
        check_transcript(&thread)?;
        figures.ended_turns += counts.ended;
        figures.open_turns += counts.open.len();
        figures.unknown_outcomes += counts.unknown;
        figures.resumed += counts.resumed;
        figures.given_up += check_crashes(events)?;
        if is_final && !counts.open.is_empty() {
            return Err(format!("{} turns never ended", counts.open.len()));
        }
        Ok(())
    }

    /// Earlier events still exist, unchanged.
    fn check_unchanged(&mut self, session: u128, events: &[Arc<Event>]) -> Result<(), String> {
        let before = self.seen.entry(session).or_default();
        if !events.starts_with(before) {
            return Err(format!(
                "of {} events that were seen before, some are gone or changed",
                before.len()
            ));
        }
        *before = events.to_vec();
        Ok(())
    }
}

async fn read(store: &SqliteStore, session: u128) -> Result<Vec<Arc<Event>>, String> {
    read_stream(store, &StreamKey::from(session_id(session))).await
}

async fn read_stream(store: &SqliteStore, key: &StreamKey) -> Result<Vec<Arc<Event>>, String> {
    let page = store
        .journal()
        .read(key, 0, usize::MAX)
        .await
        .map_err(|error| error.to_string())?;
    Ok(page.events)
}

fn check_numbers(events: &[Arc<Event>]) -> Result<(), String> {
    for (expected, event) in (1..).zip(events) {
        if event.sequence != Some(expected) {
            return Err(format!(
                "event {expected} has the number {:?}",
                event.sequence
            ));
        }
    }
    Ok(())
}

fn input_text(event: &Event) -> Option<&str> {
    match &event.data {
        EventData::InputMessage(data) => data.message.text(),
        EventData::InputQueued(data) => data.message.text(),
        _ => None,
    }
}

/// Counts starts and ends of turns and calls.
#[derive(Default)]
struct EventCounts {
    open: HashSet<String>,
    ended: usize,
    unknown: usize,
    resumed: usize,
}

impl EventCounts {
    fn count(events: &[Arc<Event>]) -> Result<Self, String> {
        let mut counts = Self::default();
        let mut ends: HashSet<String> = HashSet::new();
        let mut results: HashMap<ExecId, usize> = HashMap::new();
        let mut started: HashSet<ExecId> = HashSet::new();
        for event in events {
            let turn = event
                .context
                .turn_id
                .map(|turn| turn.to_string())
                .unwrap_or_default();
            match (&event.data, event.context.exec_id) {
                (EventData::TurnStarted(_), _) => drop(counts.open.insert(turn)),
                (EventData::TurnResumed(_), _) => counts.resumed += 1,
                (EventData::ToolStarted(_), Some(step)) if !started.insert(step) => {
                    return Err(format!("the intent of {step} is recorded twice"));
                }
                (EventData::ToolCompleted(data), Some(step)) => {
                    *results.entry(step).or_default() += 1;
                    counts.unknown += usize::from(data.status == ToolStatus::Unknown);
                }
                (data, _) if data.ends_turn() => {
                    counts.open.remove(&turn);
                    counts.ended += 1;
                    if !ends.insert(turn.clone()) {
                        return Err(format!("{turn} has two ends"));
                    }
                }
                _ => {}
            }
        }
        match results.iter().find(|(_, count)| **count > 1) {
            Some((step, count)) => Err(format!("{step} has {count} results")),
            None => Ok(counts),
        }
    }
}

/// Between turns, every call is directly followed by its result.
fn check_transcript(thread: &Thread) -> Result<(), String> {
    let messages: Vec<_> = thread.history().iter().collect();
    let mut waiting: Vec<String> = Vec::new();
    for message in &messages {
        match message.tool_call_id() {
            Some(call) => match waiting.first() {
                Some(first) if first == call => drop(waiting.remove(0)),
                _ => return Err(format!("a result of {call} is at the wrong position")),
            },
            None if !waiting.is_empty() => return Err(format!("{waiting:?} have no results")),
            None => {
                waiting = message
                    .tool_calls()
                    .iter()
                    .map(|call| call.id.clone())
                    .collect()
            }
        }
    }
    if thread.turn().is_none() && !waiting.is_empty() {
        return Err(format!(
            "the conversation ends with unanswered calls: {waiting:?}"
        ));
    }
    Ok(())
}

/// An at-most-once tool ran at most once in every case.
fn check_effects(directory: &Path) -> Result<(), String> {
    let log = std::fs::read_to_string(directory.join(EFFECTS)).unwrap_or_default();
    let mut effects: HashMap<&str, usize> = HashMap::new();
    for line in log.lines() {
        *effects.entry(line).or_default() += 1;
    }
    let may_repeat = |line: &str| line.starts_with("pure ") || line.starts_with("idempotent ");
    match effects
        .iter()
        .find(|(line, count)| **count > 1 && !may_repeat(line))
    {
        Some((line, count)) => Err(format!("`{line}` took effect {count} times")),
        None => Ok(()),
    }
}
