//! Settles under a claim: rows whose outcome is the same are settled by one statement, whose cost for a row does
//! not grow with the batch.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use pillarbox::port::{Change, Outcome, Settle, Settled};
use sqlx::postgres::{PgConnection, PgRow};
use sqlx::{AssertSqlSafe, Row as _};

use crate::connection::Session;
use crate::error::DriverError;
use crate::insert::Prepared;
use crate::joins::Fired;
use crate::settle::{Pairs, settle_any};
use crate::sql::{Locked, Sql};
use crate::time::{Time, micros};

/// Outcomes that `settle` applies in one statement: its cost for a row grows with their number.
const TOGETHER: usize = 50;

/// Settles outcomes of one owner's claims, all of them in one transaction.
pub(crate) async fn settle_claimed(
    session: &mut Session,
    sql: &Sql,
    request: &Settle,
    owner: &str,
    locked: Locked,
) -> Result<(Settled, Fired), DriverError> {
    let parts = parts(&request.outcomes, locked);
    let prepared = session.prepared();
    if let [part] = &*parts {
        let call = Call { sql, request, owner, prepared, locked, alone: true };
        return call.settle(&mut session.connection, part).await;
    }
    let mut tx = session.begin().await?;
    let call = Call { sql, request, owner, prepared, locked, alone: false };
    let (mut whole, mut all_fired) = (Settled::all_but(Vec::new()), Fired::default());
    for part in &parts {
        let (settled, fired) = call.settle(&mut tx.tx, part).await?;
        whole.stale.extend(settled.stale);
        whole.busy.extend(settled.busy);
        whole.reused |= settled.reused;
        all_fired.0 += fired.0;
    }
    tx.commit().await?;
    whole.stale.sort_unstable();
    whole.busy.sort_unstable();
    Ok((whole, all_fired))
}

/// Outcomes that one statement applies, by their places in the request.
#[derive(Debug, PartialEq, Eq)]
enum Part {
    Done(Vec<usize>),
    Renewed(Duration, Vec<usize>),
    /// Outcomes with values of their own, a second outcome of a row, or rows that others may have locked.
    Other(Vec<usize>),
}

/// Divides outcomes by the statement that applies them.
fn parts(outcomes: &[Outcome], locked: Locked) -> Vec<Part> {
    let (mut done, mut other): (Vec<usize>, Vec<usize>) = Default::default();
    let mut renewed: Option<(Duration, Vec<usize>)> = None;
    // In ascending order, as the engine sends them, no row has two outcomes.
    let distinct = is_ascending(outcomes);
    let mut named = HashSet::new();
    for (place, outcome) in outcomes.iter().enumerate() {
        let alike = locked == Locked::Briefly && (distinct || named.insert(outcome.seq));
        match outcome.change {
            Change::Done if alike => done.push(place),
            Change::Extend { lease }
                if alike && renewed.as_ref().is_none_or(|(length, _)| *length == lease) =>
            {
                renewed.get_or_insert_with(|| (lease, Vec::new())).1.push(place);
            }
            _ => other.push(place),
        }
    }
    let mut parts = Vec::new();
    parts.extend((!done.is_empty()).then_some(Part::Done(done)));
    parts.extend(renewed.map(|(lease, places)| Part::Renewed(lease, places)));
    parts.extend(other.chunks(TOGETHER).map(|places| Part::Other(places.to_vec())));
    parts
}

fn is_ascending(outcomes: &[Outcome]) -> bool {
    outcomes.is_sorted_by(|one, next| one.seq < next.seq)
}

/// One settle of one owner.
struct Call<'a> {
    sql: &'a Sql,
    request: &'a Settle,
    owner: &'a str,
    prepared: Prepared,
    locked: Locked,
    /// Whether a part is a transaction of its own.
    alone: bool,
}

impl Call<'_> {
    async fn settle(
        &self,
        connection: &mut PgConnection,
        part: &Part,
    ) -> Result<(Settled, Fired), DriverError> {
        match part {
            Part::Done(places) => {
                if let Some(fired) = self.settle_whole(connection, places).await? {
                    return Ok((Settled::all_but(Vec::new()), fired));
                }
                let statement = self.sql.claimed_done(self.request.on_done);
                let row = self.run(connection, statement, places, self.ids(places), self.alone).await?;
                Ok((
                    self.settled(&row, places)?,
                    Fired(row.try_get::<Option<i32>, _>(2)?.unwrap_or_default()),
                ))
            }
            Part::Renewed(lease, places) => {
                let renew = &self.sql.claimed_renew;
                let row = self.run(connection, renew, places, self.ids(places), micros(*lease)).await?;
                Ok((self.settled(&row, places)?, Fired::default()))
            }
            Part::Other(places) => {
                let outcomes = places.iter().map(|place| self.request.outcomes[*place].clone()).collect();
                let request = Settle { outcomes, ..self.request.clone() };
                let (mut settled, fired) =
                    settle_any(connection, self.sql, &request, self.prepared, self.locked).await?;
                let found = settled.stale.iter_mut().chain(&mut settled.busy);
                found.for_each(|place| *place = places[*place]);
                Ok((settled, fired))
            }
        }
    }

    /// The fast path for nearly every batch of done rows: each row is as it was claimed. Returns `None`, with nothing
    /// changed, if one is not, if a failure would end the transaction that the batch is a part of, or if there is only
    /// one row, for which a failure costs more than the path saves.
    async fn settle_whole(
        &self,
        connection: &mut PgConnection,
        places: &[usize],
    ) -> Result<Option<Fired>, DriverError> {
        let ids = self.ids(places);
        let fits = self.alone && self.prepared == Prepared::Kept && is_ascending(&self.request.outcomes);
        if !fits || places.len() < 2 || ids.iter().any(|id| id.contains('\n')) {
            return Ok(None);
        }
        let ids = ids.join("\n");
        let statement = self.sql.claimed_done_whole(self.request.on_done);
        match self.run(connection, statement, places, ids, true).await {
            Ok(row) => Ok(Some(Fired(row.try_get::<Option<i32>, _>(1)?.unwrap_or_default()))),
            Err(failure) if failure.is_not_whole() => Ok(None),
            Err(failure) => Err(failure),
        }
    }

    /// Runs a statement on the rows at these places, with their ids and a last parameter of its own.
    async fn run<'q, I, T>(
        &'q self,
        connection: &mut PgConnection,
        statement: &Arc<str>,
        places: &[usize],
        ids: I,
        last: T,
    ) -> Result<PgRow, DriverError>
    where
        I: 'q + Send + sqlx::Encode<'q, sqlx::Postgres> + sqlx::Type<sqlx::Postgres>,
        T: 'q + Send + sqlx::Encode<'q, sqlx::Postgres> + sqlx::Type<sqlx::Postgres>,
    {
        let outcomes = || places.iter().map(|place| &self.request.outcomes[*place]);
        let query = sqlx::query(AssertSqlSafe(Arc::clone(statement)))
            .persistent(self.prepared == Prepared::Kept)
            .bind(self.owner)
            .bind(outcomes().map(|outcome| outcome.seq.0).collect::<Vec<i64>>())
            .bind(self.request.now.map(Time))
            .bind(ids)
            .bind(outcomes().map(|outcome| outcome.token.0).collect::<Vec<i64>>())
            .bind(last);
        Ok(query.fetch_one(connection).await?)
    }

    fn ids(&self, places: &[usize]) -> Vec<&str> {
        places.iter().map(|place| self.request.outcomes[*place].id.as_str()).collect()
    }

    /// The result of a statement on the rows at these places.
    fn settled(&self, row: &PgRow, places: &[usize]) -> Result<Settled, DriverError> {
        // The statement returns the changed rows only if some rows did not change.
        let Some(changed) = row.try_get::<Option<Vec<String>>, _>(0)? else {
            return Ok(Settled::all_but(Vec::new()));
        };
        let changed = Pairs::new(Some(changed));
        let is_stale = |place: &usize| {
            let outcome = &self.request.outcomes[*place];
            !changed.has(outcome.seq.0, outcome.id.as_str())
        };
        let stale = places.iter().copied().filter(is_stale).collect();
        let reused = row.try_get::<Option<bool>, _>(1)? == Some(true);
        Ok(Settled { reused, ..Settled::all_but(stale) })
    }
}

#[cfg(test)]
mod tests {
    use pillarbox::model::{EventId, Seq, Token};

    use super::*;

    fn outcome(seq: i64, change: Change) -> Outcome {
        Outcome { seq: Seq(seq), id: EventId::new(format!("e{seq}")).unwrap(), token: Token(1), change }
    }

    #[test]
    fn outcomes_are_divided_by_the_statement_that_applies_them() {
        let extend = |seconds| Change::Extend { lease: Duration::from_secs(seconds) };
        let outcomes = [
            outcome(1, Change::Done),
            outcome(2, extend(30)),
            outcome(3, Change::Release { attempts: 0 }),
            outcome(4, Change::Done),
            outcome(5, extend(0)),
            outcome(1, Change::Done),
        ];
        let expected = [
            Part::Done(vec![0, 3]),
            Part::Renewed(Duration::from_secs(30), vec![1]),
            Part::Other(vec![2, 4, 5]),
        ];
        assert_eq!(parts(&outcomes, Locked::Briefly), expected);
    }

    #[test]
    fn outcomes_with_values_of_their_own_are_applied_few_at_a_time() {
        let outcomes: Vec<Outcome> =
            (0..120).map(|seq| outcome(seq, Change::Release { attempts: 0 })).collect();
        let sizes: Vec<usize> = parts(&outcomes, Locked::Briefly)
            .iter()
            .map(|part| match part {
                Part::Other(places) => places.len(),
                _ => 0,
            })
            .collect();
        assert_eq!(sizes, [TOGETHER, TOGETHER, 20]);
        assert_eq!(parts(&[outcome(1, Change::Done)], Locked::Skipped), [Part::Other(vec![0])]);
    }
}
