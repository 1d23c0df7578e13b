//! The ledger in memory.

use std::collections::{BTreeMap, HashMap};
use std::sync::Mutex;

use async_trait::async_trait;
use chrono::{Days, NaiveDate};
use windlass_core::budget::{DayBudgetRefusal, DayLimits, Reserve};
use windlass_core::typed_id::ExecId;

use super::{LedgerError, OwnerSpending, Reservation, Settlement, SpendingLedger};
use windlass_core::lock::lock;

/// A ledger in memory. A [journal](crate::MemoryJournal::ledger) settles with its appends.
#[derive(Debug, Default)]
pub struct MemoryLedger {
    charges: Mutex<Charges>,
}

#[derive(Debug, Default)]
struct Charges {
    /// Charges by day, including reservations.
    days: BTreeMap<NaiveDate, BTreeMap<Option<String>, Reserve>>,
    reservations: HashMap<ExecId, Reservation>,
}

impl MemoryLedger {
    pub(crate) fn settle(&self, settlements: &[Settlement]) {
        let mut charges = lock(&self.charges);
        settlements.iter().for_each(|it| charges.settle(it));
    }
}

impl Charges {
    fn charged(&mut self, day: NaiveDate, owner: &Option<String>) -> &mut Reserve {
        let owners = self.days.entry(day).or_default();
        owners.entry(owner.clone()).or_default()
    }

    fn refusal(&self, next: &Reservation, limits: &DayLimits) -> Option<DayBudgetRefusal> {
        let day = self.days.get(&next.at.date_naive());
        let owners = day.into_iter().flatten();
        let all = owners.fold(Reserve::default(), |sum, (_, amount)| sum.plus(*amount));
        let own = next.owner.as_ref().map(|_| {
            let own = day.and_then(|day| day.get(&next.owner));
            own.copied().unwrap_or_default()
        });
        limits.refuse(all, own, next.amount, next.at)
    }

    fn reserve(&mut self, next: Reservation) {
        let today = next.at.date_naive();
        // For calls that never ended, the charge stays and the reservation is removed.
        let yesterday = today.checked_sub_days(Days::new(1)).unwrap_or(today);
        self.reservations
            .retain(|_, held| held.at.date_naive() >= yesterday);
        let charged = self.charged(today, &next.owner);
        *charged = charged.plus(next.amount);
        self.reservations.insert(next.exec_id, next);
    }

    fn settle(&mut self, settlement: &Settlement) {
        let held = self.reservations.remove(&settlement.exec_id);
        let amount = settlement.amount(held.as_ref().map(|held| held.amount));
        let owner = match &held {
            Some(held) => {
                let charged = self.charged(held.at.date_naive(), &held.owner);
                *charged = charged.minus(held.amount);
                &held.owner
            }
            None => &settlement.owner,
        };
        if amount != Reserve::default() {
            let charged = self.charged(settlement.at.date_naive(), owner);
            *charged = charged.plus(amount);
        }
    }
}

#[async_trait]
impl SpendingLedger for MemoryLedger {
    async fn reserve(
        &self,
        reservation: Reservation,
        limits: &DayLimits,
    ) -> Result<(), LedgerError> {
        let mut charges = lock(&self.charges);
        if let Some(refusal) = charges.refusal(&reservation, limits) {
            return Err(LedgerError::Refused(refusal));
        }
        charges.reserve(reservation);
        Ok(())
    }

    async fn refusal(
        &self,
        reservation: &Reservation,
        limits: &DayLimits,
    ) -> Result<Option<DayBudgetRefusal>, LedgerError> {
        Ok(lock(&self.charges).refusal(reservation, limits))
    }

    async fn spending(&self, day: NaiveDate) -> Result<Vec<OwnerSpending>, LedgerError> {
        let charges = lock(&self.charges);
        let owners = charges.days.get(&day).into_iter().flatten();
        let spending = owners.map(|(owner, charged)| {
            let held = charges.reservations.values();
            let held = held.filter(|held| held.at.date_naive() == day && held.owner == *owner);
            let reserved = held.fold(Reserve::default(), |sum, held| sum.plus(held.amount));
            OwnerSpending {
                owner: owner.clone(),
                settled: charged.minus(reserved),
                reserved,
            }
        });
        Ok(spending.collect())
    }
}
