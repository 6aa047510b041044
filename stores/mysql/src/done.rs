//! Settling a node's batch in which every event is done, as in nearly every batch: two round trips.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use pillarbox::model::NodeId;
use pillarbox::port::{OnDone, Outcome, Settle, Settled};

use crate::connection::Session;
use crate::error::DriverError;
use crate::pipeline::Pipeline;
use crate::probe::Locking;
use crate::row::{text_number, text_of};
use crate::settle::{Busy, forget_attempts, settle_on};
use crate::sql::{Sql, fill, list, locked_rows};
use crate::time::now_sql;

pub(crate) async fn settle_done(
    session: &mut Session,
    sql: &Sql,
    request: &Settle,
    node: NodeId,
    locking: Locking,
) -> Result<Settled, DriverError> {
    let Some(ended) = Ended::lock(session, sql, request, node, locking).await? else {
        return Ok(Settled::lost(request.outcomes.len()));
    };
    if ended.joined {
        // The general path runs in the same transaction, so it keeps the locks that are already held.
        let mut pipeline = Pipeline::new(&mut session.connection, "");
        let settled = settle_on(&mut pipeline, sql, request, locking).await?;
        let rest = pipeline.rest();
        session.commit_with(&rest).await?;
        return Ok(settled);
    }
    let busy = match locking {
        Locking::Skips => ended.busy(session, sql).await?,
        Locking::Waits => None,
    };
    if !ended.rows.is_empty() {
        ended.write(session, sql, request).await?;
    }
    let unchanged = (0..request.outcomes.len()).filter(|place| !ended.ends(&request.outcomes[*place]));
    let is_busy = |place: &usize| busy.as_ref().is_some_and(|busy| busy.has(&request.outcomes[*place]));
    let (places, stale) = unchanged.partition(is_busy);
    let reused = ended.reused || busy.is_some_and(|busy| busy.is_reused(request));
    Ok(Settled { held: true, stale, busy: places, reused })
}

/// What happens to a done row.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Done {
    Kept,
    Deleted,
}

/// Pending rows that are done, locked under the node's fence.
struct Ended {
    /// The rows by sequence number, each with its event id.
    rows: BTreeMap<i64, (String, Done)>,
    /// The ids of deleted rows that may have an attempt history.
    tried: Vec<String>,
    /// Whether a row is marked as a step of joins. Only messages of the queue can be, and nodes read none.
    joined: bool,
    /// Whether an outcome's sequence number belongs to another event now.
    reused: bool,
    /// Sequence numbers for which no row could be locked: it is gone, ended or locked by another transaction.
    missing: BTreeSet<i64>,
}

impl Ended {
    /// Locks the rows. None if the node is not registered.
    async fn lock(
        session: &mut Session,
        sql: &Sql,
        request: &Settle,
        node: NodeId,
        locking: Locking,
    ) -> Result<Option<Self>, DriverError> {
        let mut ordered: BTreeSet<i64> = request.outcomes.iter().map(|outcome| outcome.seq.0).collect();
        let parts =
            [("{seqs}", list(&ordered)), ("{node_id}", node.to_string()), ("{skip_locked}", locking.words())];
        let sets = session.begin_with(&fill(&sql.done_lock, &parts)).await?;
        let set = |place: usize| sets.get(place).map_or(&[][..], Vec::as_slice);
        if set(0).is_empty() {
            return Ok(None);
        }
        let wanted: HashSet<(i64, &str)> =
            request.outcomes.iter().map(|outcome| (outcome.seq.0, outcome.id.as_str())).collect();
        for row in set(1) {
            ordered.remove(&text_number(row, 0));
        }
        let mut ended =
            Self { rows: BTreeMap::new(), tried: Vec::new(), joined: false, reused: false, missing: ordered };
        for row in set(1) {
            let (seq, id) = (text_number(row, 0), text_of(row, 3).unwrap_or_default());
            if !wanted.contains(&(seq, id)) {
                ended.reused = true;
                continue;
            }
            let deleted = request.on_done == OnDone::Delete && text_number(row, 1) == 0;
            ended.joined |= text_number(row, 2) != 0;
            if deleted && text_number(row, 4) != 0 {
                ended.tried.push(id.to_owned());
            }
            ended.rows.insert(seq, (id.to_owned(), if deleted { Done::Deleted } else { Done::Kept }));
        }
        Ok(Some(ended))
    }

    /// Finds the rows that other transactions have locked, if any row is missing.
    async fn busy(&self, session: &mut Session, sql: &Sql) -> Result<Option<Busy>, DriverError> {
        if self.missing.is_empty() {
            return Ok(None);
        }
        Ok(Some(Busy::read(&session.results(Busy::sql(sql, &self.missing)).await?)))
    }

    fn ends(&self, outcome: &Outcome) -> bool {
        self.rows.get(&outcome.seq.0).is_some_and(|(id, _)| id == outcome.id.as_str())
    }

    fn those(&self, wanted: Done) -> Vec<i64> {
        self.rows.iter().filter(|(_, (_, done))| *done == wanted).map(|(seq, _)| *seq).collect()
    }

    /// Writes the changes; the last statements share a round trip with the commit.
    async fn write(&self, session: &mut Session, sql: &Sql, request: &Settle) -> Result<(), DriverError> {
        if !self.tried.is_empty() {
            forget_attempts(session, sql, self.tried.iter().map(String::as_str)).await?;
        }
        let mut texts = Vec::new();
        for (done, statement) in [(Done::Kept, &sql.done), (Done::Deleted, &sql.delete)] {
            let seqs = self.those(done);
            if !seqs.is_empty() {
                let parts = [("{rows}", locked_rows(seqs)), ("{now}", now_sql(request.now))];
                texts.push(fill(statement, &parts));
            }
        }
        session.commit_with(&texts.join("; ")).await
    }
}
