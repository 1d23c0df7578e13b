//! The spending ledger in a database.

use std::sync::Arc;

use async_trait::async_trait;
use chrono::{DateTime, NaiveDate, Utc};
use rusqlite::Connection;
use windlass_core::budget::{DayBudgetRefusal, DayLimits, Reserve};
use windlass_core::typed_id::ExecId;

use crate::ledger::{LedgerError, OwnerSpending, Reservation, Settlement, SpendingLedger};
use crate::sqlite::cached::CachedStatements;
use crate::sqlite::error::{DbError, DbResult, SqliteError};
use crate::sqlite::inner::Inner;
use crate::sqlite::numbers::{int, uint};

/// The spending ledger in a SQLite database; clones share it.
#[derive(Debug, Clone)]
pub struct SqliteLedger {
    pub(crate) inner: Arc<Inner>,
}

impl From<DbError> for LedgerError {
    fn from(error: DbError) -> Self {
        Self::Unavailable(SqliteError::from(error).to_string())
    }
}

impl From<SqliteError> for LedgerError {
    fn from(error: SqliteError) -> Self {
        Self::Unavailable(error.to_string())
    }
}

#[async_trait]
impl SpendingLedger for SqliteLedger {
    async fn reserve(
        &self,
        reservation: Reservation,
        limits: &DayLimits,
    ) -> Result<(), LedgerError> {
        let limits = *limits;
        let reserved = self.inner.writer()?.write(move |work| {
            let refusal = refusal(work.db, &reservation, &limits)?;
            if refusal.is_none() {
                reserve(work.db, &reservation)?;
            }
            Ok(refusal)
        });
        match reserved.await? {
            Some(refusal) => Err(LedgerError::Refused(refusal)),
            None => Ok(()),
        }
    }

    async fn refusal(
        &self,
        reservation: &Reservation,
        limits: &DayLimits,
    ) -> Result<Option<DayBudgetRefusal>, LedgerError> {
        let (reservation, limits) = (reservation.clone(), *limits);
        let refusal = move |reader: &_| refusal(reader, &reservation, &limits);
        self.inner.read(refusal).await
    }

    async fn spending(&self, day: NaiveDate) -> Result<Vec<OwnerSpending>, LedgerError> {
        self.inner.read(move |reader| spending(reader, day)).await
    }
}

/// Numbers a day as the tables do.
fn number(day: NaiveDate) -> i64 {
    day.signed_duration_since(DateTime::<Utc>::UNIX_EPOCH.date_naive())
        .num_days()
}

fn name(owner: Option<&str>) -> &str {
    owner.unwrap_or_default()
}

fn refusal(
    db: &Connection,
    next: &Reservation,
    limits: &DayLimits,
) -> DbResult<Option<DayBudgetRefusal>> {
    let (mut all, mut own) = (
        Reserve::default(),
        next.owner.as_ref().map(|_| Reserve::default()),
    );
    let mut statement =
        db.prepare_cached("SELECT owner, tokens, micro_usd FROM spending WHERE day = ?1")?;
    let mut rows = statement.query([number(next.at.date_naive())])?;
    while let Some(row) = rows.next()? {
        let amount = Reserve {
            tokens: uint(row, 1)?,
            micro_usd: uint(row, 2)?,
        };
        all = all.plus(amount);
        if next.owner.is_some() && row.get_ref(0)?.as_str().ok() == next.owner.as_deref() {
            own = Some(amount);
        }
    }
    Ok(limits.refuse(all, own, next.amount, next.at))
}

fn reserve(db: &Connection, next: &Reservation) -> DbResult<()> {
    let (day, owner) = (number(next.at.date_naive()), name(next.owner.as_deref()));
    if charge(db, (day, owner), next.amount)? {
        // The first charge of a day. For calls that never ended, the charge stays and the reservation is removed.
        db.execute_cached("DELETE FROM reservations WHERE day < ?1 - 1", [day])?;
    }
    let sql = "INSERT OR REPLACE INTO reservations (exec, day, owner, tokens, micro_usd) VALUES (?1, ?2, ?3, ?4, ?5)";
    db.execute_cached(
        sql,
        (
            next.exec_id.uuid().as_bytes(),
            day,
            owner,
            int(next.amount.tokens),
            int(next.amount.micro_usd),
        ),
    )?;
    Ok(())
}

/// Adds to the charges of a day; returns whether the owner had no row for it. Sums saturate.
fn charge(db: &Connection, (day, owner): (i64, &str), amount: Reserve) -> DbResult<bool> {
    let sql = "UPDATE spending SET tokens = min(tokens, 9223372036854775807 - ?3) + ?3, \
             micro_usd = min(micro_usd, 9223372036854775807 - ?4) + ?4 WHERE day = ?1 AND owner = ?2";
    let changed =
        db.execute_cached(sql, (day, owner, int(amount.tokens), int(amount.micro_usd)))?;
    if changed == 0 {
        db.execute_cached(
            "INSERT INTO spending (day, owner, tokens, micro_usd) VALUES (?1, ?2, ?3, ?4)",
            (day, owner, int(amount.tokens), int(amount.micro_usd)),
        )?;
    }
    Ok(changed == 0)
}

/// Deletes the reservation of a step.
fn release(db: &Connection, exec_id: ExecId) -> DbResult<Option<(String, Reserve)>> {
    let held = db.find_row(
        "DELETE FROM reservations WHERE exec = ?1 RETURNING day, owner, tokens, micro_usd",
        [exec_id.uuid().as_bytes()],
        |row| {
            let amount = Reserve {
                tokens: uint(row, 2)?,
                micro_usd: uint(row, 3)?,
            };
            Ok((row.get::<_, i64>(0)?, row.get::<_, String>(1)?, amount))
        },
    )?;
    let Some((day, owner, amount)) = held else {
        return Ok(None);
    };
    let sql = "UPDATE spending SET tokens = max(tokens - ?3, 0), micro_usd = max(micro_usd - ?4, 0) \
             WHERE day = ?1 AND owner = ?2";
    db.execute_cached(
        sql,
        (day, &owner, int(amount.tokens), int(amount.micro_usd)),
    )?;
    Ok(Some((owner, amount)))
}

/// Settles the spending of an append.
pub(crate) fn settle(db: &Connection, settlements: &[Settlement]) -> DbResult<()> {
    for settlement in settlements {
        let held = release(db, settlement.exec_id)?;
        let amount = settlement.amount(held.as_ref().map(|(_, amount)| *amount));
        let owner = match &held {
            Some((owner, _)) => owner,
            None => name(settlement.owner.as_deref()),
        };
        if amount != Reserve::default() {
            let day = number(settlement.at.date_naive());
            charge(db, (day, owner), amount)?;
        }
    }
    Ok(())
}

fn spending(db: &Connection, day: NaiveDate) -> DbResult<Vec<OwnerSpending>> {
    let sql = "SELECT owner, tokens, micro_usd, \
         (SELECT coalesce(sum(tokens), 0) FROM reservations AS held WHERE held.day = spending.day AND held.owner = spending.owner), \
         (SELECT coalesce(sum(micro_usd), 0) FROM reservations AS held WHERE held.day = spending.day AND held.owner = spending.owner) \
         FROM spending WHERE day = ?1 ORDER BY owner";
    Ok(db.list_rows(sql, [number(day)], |row| {
        let charged = Reserve {
            tokens: uint(row, 1)?,
            micro_usd: uint(row, 2)?,
        };
        let reserved = Reserve {
            tokens: uint(row, 3)?,
            micro_usd: uint(row, 4)?,
        };
        let owner: String = row.get(0)?;
        Ok(OwnerSpending {
            owner: Some(owner).filter(|owner| !owner.is_empty()),
            settled: charged.minus(reserved),
            reserved,
        })
    })?)
}
