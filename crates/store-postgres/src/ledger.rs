//! The spending ledger in a database.

use async_trait::async_trait;
use chrono::{DateTime, NaiveDate, Utc};
use deadpool_postgres::GenericClient;
use tokio_postgres::Row;
use windlass_core::budget::{DayBudgetRefusal, DayLimits, Reserve};
use windlass_core::typed_id::ExecId;
use windlass_store::{LedgerError, OwnerSpending, Reservation, Settlement, SpendingLedger};

use crate::error::{DbResult, PostgresError};
use crate::numbers::{int, uint};
use crate::store::Database;

/// The spending ledger in a PostgreSQL database; clones share it, and so do all processes that use the database.
#[derive(Debug, Clone)]
pub struct PostgresLedger {
    pub(crate) database: Database,
}

#[async_trait]
impl SpendingLedger for PostgresLedger {
    async fn reserve(
        &self,
        reservation: Reservation,
        limits: &DayLimits,
    ) -> Result<(), LedgerError> {
        match reserve(&self.database, &reservation, limits).await? {
            Some(refusal) => Err(LedgerError::Refused(refusal)),
            None => Ok(()),
        }
    }

    async fn refusal(
        &self,
        reservation: &Reservation,
        limits: &DayLimits,
    ) -> Result<Option<DayBudgetRefusal>, LedgerError> {
        let refusal = async {
            let client = self.database.client().await?;
            refusal(&client, reservation, limits).await
        };
        Ok(refusal.await?)
    }

    async fn spending(&self, day: NaiveDate) -> Result<Vec<OwnerSpending>, LedgerError> {
        Ok(spending(&self.database, day).await?)
    }
}

/// Numbers a day as the tables do.
fn number(day: NaiveDate) -> i64 {
    day.signed_duration_since(DateTime::<Utc>::UNIX_EPOCH.date_naive())
        .num_days()
}

/// Returns the bytes of an owner. The operator has none, and comes first.
fn name(owner: Option<&str>) -> &[u8] {
    owner.unwrap_or_default().as_bytes()
}

fn amount(row: &Row, first: usize) -> Result<Reserve, tokio_postgres::Error> {
    Ok(Reserve {
        tokens: uint(row.try_get(first)?),
        micro_usd: uint(row.try_get(first + 1)?),
    })
}

async fn refusal(
    client: &impl GenericClient,
    next: &Reservation,
    limits: &DayLimits,
) -> DbResult<Option<DayBudgetRefusal>> {
    let (mut all, mut own) = (
        Reserve::default(),
        next.owner.as_ref().map(|_| Reserve::default()),
    );
    let sql = "SELECT tokens, micro_usd, owner FROM spending WHERE day = $1";
    let statement = client.prepare_cached(sql).await?;
    let day = number(next.at.date_naive());
    for row in client.query(&statement, &[&day]).await? {
        let amount = amount(&row, 0)?;
        all = all.plus(amount);
        let owner: &[u8] = row.try_get(2)?;
        if next.owner.is_some() && owner == name(next.owner.as_deref()) {
            own = Some(amount);
        }
    }
    Ok(limits.refuse(all, own, next.amount, next.at))
}

/// Reserves unless a limit refuses it. Reservations wait for each other, so that they do not exceed a limit together.
async fn reserve(
    database: &Database,
    next: &Reservation,
    limits: &DayLimits,
) -> DbResult<Option<DayBudgetRefusal>> {
    let mut client = database.client().await?;
    let transaction = client.transaction().await?;
    let lock = "SELECT pg_advisory_xact_lock(hashtextextended('windlass spending ' || current_schema(), 0))";
    transaction.execute(lock, &[]).await?;
    let refused = refusal(&transaction, next, limits).await?;
    if refused.is_some() {
        return Ok(refused);
    }
    let (day, owner) = (number(next.at.date_naive()), name(next.owner.as_deref()));
    charge(&transaction, (day, owner), next.amount).await?;
    // For calls that never ended, the charge stays and the reservation is removed.
    let sql = "DELETE FROM reservations WHERE day + 1 < $1";
    transaction.execute(sql, &[&day]).await?;
    let sql = "INSERT INTO reservations (exec, day, owner, tokens, micro_usd) VALUES ($1, $2, $3, $4, $5) \
        ON CONFLICT (exec) DO UPDATE SET day = excluded.day, owner = excluded.owner, tokens = excluded.tokens, \
        micro_usd = excluded.micro_usd";
    let (tokens, micro_usd) = (int(next.amount.tokens), int(next.amount.micro_usd));
    let exec = next.exec_id.uuid();
    transaction
        .execute(sql, &[&exec, &day, &owner, &tokens, &micro_usd])
        .await?;
    transaction.commit().await?;
    Ok(None)
}

/// Adds to the charges of a day. Sums saturate.
async fn charge(
    client: &impl GenericClient,
    (day, owner): (i64, &[u8]),
    amount: Reserve,
) -> DbResult<()> {
    let sql = "INSERT INTO spending (day, owner, tokens, micro_usd) VALUES ($1, $2, $3, $4) ON CONFLICT (day, owner) DO UPDATE SET \
        tokens = least(spending.tokens, 9223372036854775807 - excluded.tokens) + excluded.tokens, \
        micro_usd = least(spending.micro_usd, 9223372036854775807 - excluded.micro_usd) + excluded.micro_usd";
    let statement = client.prepare_cached(sql).await?;
    let (tokens, micro_usd) = (int(amount.tokens), int(amount.micro_usd));
    client
        .execute(&statement, &[&day, &owner, &tokens, &micro_usd])
        .await?;
    Ok(())
}

/// Deletes the reservation of a step and takes its charge back; returns its owner and amount.
async fn release(
    client: &impl GenericClient,
    exec_id: ExecId,
) -> DbResult<Option<(Vec<u8>, Reserve)>> {
    let sql = "WITH held AS (DELETE FROM reservations WHERE exec = $1 RETURNING day, owner, tokens, micro_usd), \
        changed AS (UPDATE spending SET tokens = greatest(spending.tokens - held.tokens, 0), \
        micro_usd = greatest(spending.micro_usd - held.micro_usd, 0) FROM held \
        WHERE spending.day = held.day AND spending.owner = held.owner) SELECT tokens, micro_usd, owner FROM held";
    let statement = client.prepare_cached(sql).await?;
    let row = client.query_opt(&statement, &[&exec_id.uuid()]).await?;
    let held = row.map(|row| Ok((row.try_get(2)?, amount(&row, 0)?)));
    held.transpose()
}

/// Settles the spending of an append.
pub(crate) async fn settle(
    client: &impl GenericClient,
    settlements: &[Settlement],
) -> DbResult<()> {
    for settlement in settlements {
        let held = release(client, settlement.exec_id).await?;
        let amount = settlement.amount(held.as_ref().map(|(_, amount)| *amount));
        let owner = match &held {
            Some((owner, _)) => owner,
            None => name(settlement.owner.as_deref()),
        };
        if amount != Reserve::default() {
            let day = number(settlement.at.date_naive());
            charge(client, (day, owner), amount).await?;
        }
    }
    Ok(())
}

async fn spending(database: &Database, day: NaiveDate) -> DbResult<Vec<OwnerSpending>> {
    let client = database.client().await?;
    let sql = "SELECT tokens, micro_usd, \
        (SELECT least(coalesce(sum(tokens), 0), 9223372036854775807)::bigint FROM reservations AS held \
         WHERE held.day = spending.day AND held.owner = spending.owner), \
        (SELECT least(coalesce(sum(micro_usd), 0), 9223372036854775807)::bigint FROM reservations AS held \
         WHERE held.day = spending.day AND held.owner = spending.owner), \
        owner FROM spending WHERE day = $1 ORDER BY owner";
    let statement = client.prepare_cached(sql).await?;
    let rows = client.query(&statement, &[&number(day)]).await?;
    let owner_spending = |row: &Row| {
        let (charged, reserved) = (amount(row, 0)?, amount(row, 2)?);
        let owner = String::from_utf8(row.try_get(4)?);
        let invalid = |_| PostgresError::Database("an owner has no valid name".to_owned());
        Ok(OwnerSpending {
            owner: Some(owner.map_err(invalid)?).filter(|owner| !owner.is_empty()),
            settled: charged.minus(reserved),
            reserved,
        })
    };
    rows.iter().map(owner_spending).collect()
}
