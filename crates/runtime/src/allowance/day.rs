//! What all sessions may use together in a day.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use async_trait::async_trait;
use chrono::{DateTime, NaiveDate, Utc};
use windlass_core::budget::{
    Charge, DayBudgetRefusal, Limit, Refused, Reserve, Spent, cost, micro_usd, tokens,
};
use windlass_core::error::{AgentLoopError, Result};
use windlass_core::events::{EventData, LlmGenerationMetadata};
use windlass_core::typed_id::ExecId;
use windlass_store::queries::{UsageBy, UsageQuery};
use windlass_store::{Journal, Queries, StreamKey, ThreadRow};

use super::{Allowance, AllowanceCall};
use crate::errors::{from_journal, from_query};

/// How many open streams, or records of one, are read at a time.
const AT_ONCE: usize = 512;

/// What all sessions may use together in a day, in UTC; `None` is no limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct DayLimits {
    /// Money of all, in millionths of a US dollar.
    pub micro_usd: Option<u64>,
    /// Tokens of all.
    pub tokens: Option<u64>,
    /// Money of each owner whose work is not the operator's, in millionths of a US dollar.
    pub owner_micro_usd: Option<u64>,
    /// What a call counts of which nobody knows what it used.
    pub reserve: Reserve,
}

/// What all sessions may use together in a day. What earlier processes used is read once, from the journal and its read
/// model; what this one uses is counted as it happens. Everything is set aside under one lock, so that calls at the same time
/// cannot pass a limit together.
pub struct DayAllowance {
    limits: DayLimits,
    book: Mutex<Book>,
}

#[derive(Default)]
struct Book {
    day: NaiveDate,
    all: Reserve,
    owners: HashMap<String, Reserve>,
    /// What is set aside for calls that run.
    held: HashMap<ExecId, (Option<String>, Reserve)>,
}

impl DayAllowance {
    /// Begins with what was used before on the same day. Nothing may run on the journal meanwhile. `owner` says from the record of
    /// a thread whose work it is.
    pub async fn open(
        limits: DayLimits,
        journal: &dyn Journal,
        queries: &dyn Queries,
        now: DateTime<Utc>,
        owner: impl Fn(&ThreadRow) -> Option<String>,
    ) -> Result<Self> {
        let mut book = Book {
            day: now.date_naive(),
            ..Book::default()
        };
        let usage = queries.usage(UsageQuery {
            since: Some(book.day.and_time(chrono::NaiveTime::MIN).and_utc()),
            until: None,
            by: UsageBy::Thread,
        });
        for (stream, sum) in usage.await.map_err(from_query)?.groups {
            let row = queries.thread(&StreamKey::new(stream)).await;
            let owner = row.map_err(from_query)?.as_ref().and_then(&owner);
            let used = Reserve {
                tokens: sum.input_tokens.saturating_add(sum.output_tokens),
                micro_usd: micro_usd(sum.cost_usd),
            };
            book.add(owner.as_deref(), used);
        }
        let mut after = None;
        loop {
            let open = journal.open(after.as_ref(), AT_ONCE).await;
            let open = open.map_err(from_journal)?;
            for stream in &open {
                let row = queries.thread(stream).await.map_err(from_query)?;
                // Without a row, the records themselves say where the open turn begins.
                let turn = row.as_ref().and_then(ThreadRow::open_turn);
                let before = turn.map_or(0, |turn| turn.first_seq.saturating_sub(1));
                let spent = spent_since(journal, stream, before, book.day).await?;
                let used = Reserve {
                    tokens: spent.tokens(&limits.reserve),
                    micro_usd: spent.micro_usd(&limits.reserve),
                };
                book.add(row.as_ref().and_then(&owner).as_deref(), used);
            }
            after = open.last().cloned();
            if open.len() < AT_ONCE {
                break;
            }
        }
        let book = Mutex::new(book);
        Ok(Self { limits, book })
    }

    /// Returns what was used today, without what is set aside.
    #[must_use]
    pub fn used(&self) -> Reserve {
        self.lock().all
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Book> {
        self.book.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn refused(&self, book: &Book, call: &AllowanceCall) -> Option<DayBudgetRefusal> {
        let held = |is_meant: &dyn Fn(&Option<String>) -> bool| {
            let mut sum = Reserve::default();
            let meant = book.held.values().filter(|(owner, _)| is_meant(owner));
            meant.for_each(|(_, reserve)| add(&mut sum, *reserve));
            sum
        };
        let mut all = book.all;
        add(&mut all, held(&|_| true));
        let limits = &self.limits;
        let mut checks = vec![
            (
                "day_usd",
                Limit::Usd,
                limits.micro_usd,
                all.micro_usd,
                call.reserve.micro_usd,
            ),
            (
                "day_tokens",
                Limit::Tokens,
                limits.tokens,
                all.tokens,
                call.reserve.tokens,
            ),
        ];
        if let Some(owner) = &call.owner {
            let mut own = book.owners.get(owner).copied().unwrap_or_default();
            add(&mut own, held(&|of| of.as_ref() == Some(owner)));
            checks.push((
                "token_day_usd",
                Limit::Usd,
                limits.owner_micro_usd,
                own.micro_usd,
                call.reserve.micro_usd,
            ));
        }
        let mut checks = checks.into_iter();
        checks.find_map(|(name, limit, allowed, used, reserve)| {
            let refused = Refused::of(limit, allowed?, used, reserve)?;
            Some(DayBudgetRefusal::new(name, refused, call.at))
        })
    }
}

#[async_trait]
impl Allowance for DayAllowance {
    async fn reserve(&self, call: &AllowanceCall) -> Result<()> {
        let mut book = self.lock();
        book.turn_to(call.at);
        match self.refused(&book, call) {
            Some(refusal) => Err(AgentLoopError::BudgetExceeded(refusal.to_string())),
            None => {
                let held = (call.owner.clone(), call.reserve);
                book.held.insert(call.exec_id, held);
                Ok(())
            }
        }
    }

    async fn day_refusal(&self, call: &AllowanceCall) -> Result<Option<DayBudgetRefusal>> {
        let mut book = self.lock();
        book.turn_to(call.at);
        Ok(self.refused(&book, call))
    }

    fn settle(&self, call: &AllowanceCall, charge: Charge<'_>) {
        let mut book = self.lock();
        book.turn_to(call.at);
        let held = book.held.remove(&call.exec_id).map(|(_, reserve)| reserve);
        let used = match charge {
            Charge::Usage(usage) => Reserve {
                tokens: tokens(usage),
                // What has no price counts as a reserve.
                micro_usd: cost(usage).unwrap_or(call.reserve.micro_usd),
            },
            Charge::Reservation => held.unwrap_or(call.reserve),
            Charge::Nothing => Reserve::default(),
        };
        book.add(call.owner.as_deref(), used);
    }
}

impl Book {
    /// Begins a new page with a new day. What runs is counted on the day on which it ends.
    fn turn_to(&mut self, now: DateTime<Utc>) {
        if now.date_naive() > self.day {
            self.day = now.date_naive();
            self.all = Reserve::default();
            self.owners.clear();
        }
    }

    fn add(&mut self, owner: Option<&str>, used: Reserve) {
        add(&mut self.all, used);
        if let Some(owner) = owner {
            add(self.owners.entry(owner.to_owned()).or_default(), used);
        }
    }
}

fn add(sum: &mut Reserve, more: Reserve) {
    sum.tokens = sum.tokens.saturating_add(more.tokens);
    sum.micro_usd = sum.micro_usd.saturating_add(more.micro_usd);
}

/// Sums what the records of the turn that is open say that was used on a day. A call without an end was cut off by the end of its process.
async fn spent_since(
    journal: &dyn Journal,
    stream: &StreamKey,
    mut after: u64,
    day: NaiveDate,
) -> Result<Spent> {
    let mut spent = Spent::default();
    let mut is_calling = false;
    loop {
        let page = journal.read(stream, after, AT_ONCE).await;
        let events = page.map_err(from_journal)?.events;
        let Some(last) = events.last() else { break };
        after = last.seq();
        for event in &events {
            let is_meant = event.ts.date_naive() == day;
            match &event.data {
                EventData::TurnStarted(_) => (spent, is_calling) = (Spent::default(), false),
                data if data.ends_turn() => (spent, is_calling) = (Spent::default(), false),
                EventData::ReasonStarted(_) | EventData::ContextCompacting(_) => {
                    is_calling = is_meant
                }
                EventData::ReasonCompleted(_) | EventData::ContextCompacted(_) => {
                    is_calling = false;
                }
                data if is_meant => spent.settle(data),
                _ => {}
            }
        }
    }
    if is_calling {
        spent.add_call(&LlmGenerationMetadata::default());
    }
    Ok(spent)
}

impl std::fmt::Debug for DayAllowance {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("DayAllowance")
            .field("limits", &self.limits)
            .field("used", &self.used())
            .finish_non_exhaustive()
    }
}
