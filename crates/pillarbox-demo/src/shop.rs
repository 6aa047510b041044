//! The shop: writes each order and its event in one transaction.

use std::sync::Arc;
use std::time::Duration;

use pillarbox::events::WriteError;
use pillarbox::port::TransactError;
use pillarbox::{AggregateType, Event, EventType, Outbox};
use pillarbox_sqlite::SqliteStore;
use pillarbox_terminal::error::{CommandError, CommandResult};
use tokio::task::JoinSet;
use tokio::time::{MissedTickBehavior, interval};

use crate::ledger::Order;
use crate::plan::{Fate, Plan, Planned};
use crate::receiver::Receiver;

/// The event type of an order.
#[derive(Debug, Clone, Copy, EventType)]
#[event_type(rename = "order.placed")]
pub(crate) struct OrderPlaced;

/// The aggregate of an order. Events of one account keep their order.
#[derive(Debug, Clone, Copy, AggregateType)]
pub(crate) struct Account;

const TABLES: &str = "\
create table account (id integer primary key, orders integer not null);
create table shop_order (account integer not null, number integer not null, cents integer not null,
                         primary key (account, number));";
const NEW_ACCOUNT: &str = "insert into account (id, orders) values (?1, 0)";
const NEXT_NUMBER: &str = "update account set orders = orders + 1 where id = ?1 returning orders";
const NEW_ORDER: &str = "insert into shop_order (account, number, cents) values (?1, ?2, ?3)";

/// Interval between bursts of orders.
const BURST_EVERY: Duration = Duration::from_millis(10);
const BURSTS_PER_SECOND: u64 = 100;
/// Maximum number of concurrent transactions.
const AT_ONCE: usize = 32;

/// A shop with accounts numbered from 1.
pub(crate) struct Shop {
    store: SqliteStore,
    outbox: Outbox<SqliteStore>,
    receiver: Arc<Receiver>,
}

/// The reason why an order's transaction was rolled back.
#[derive(Debug, thiserror::Error)]
enum NoOrder {
    #[error("the card was refused")]
    CardRefused,
    #[error(transparent)]
    Database(#[from] pillarbox_sqlite::rusqlite::Error),
    #[error(transparent)]
    Write(#[from] WriteError),
}

impl Shop {
    pub(crate) async fn open(
        store: SqliteStore,
        receiver: Arc<Receiver>,
        accounts: u32,
    ) -> CommandResult<Self> {
        let outbox = Outbox::writer_only(store.clone()).start().await?;
        let opened = outbox.transaction(move |tx| {
            tx.execute_batch(TABLES)?;
            (1..=accounts).try_for_each(|account| tx.execute(NEW_ACCOUNT, [account]).map(drop))
        });
        opened.await.map_err(|error: TransactError<pillarbox_sqlite::rusqlite::Error>| {
            CommandError::failed(format!("the shop's tables can't be made: {error}"))
        })?;
        Ok(Self { store, outbox, receiver })
    }

    pub(crate) fn store(&self) -> &SqliteStore {
        &self.store
    }

    pub(crate) fn receiver(&self) -> &Receiver {
        &self.receiver
    }

    /// Places an order and records the result in the ledger.
    pub(crate) async fn place(&self, planned: Planned) -> CommandResult {
        let Planned { account, cents, fate } = planned;
        let placed = self.outbox.transaction(move |tx| {
            let number: u32 = tx.query_row(NEXT_NUMBER, [account], |row| row.get(0))?;
            tx.execute(NEW_ORDER, (account, number, cents))?;
            let order = Order { account, number: number.into(), cents, refused: fate == Fate::CardRefused };
            tx.write(
                Event::json(OrderPlaced, &order).map_err(WriteError::from)?.aggregate(Account, account),
            )?;
            match fate {
                Fate::Paid => Ok(order),
                Fate::CardRefused => Err(NoOrder::CardRefused),
            }
        });
        match placed.await {
            Ok(order) => self.receiver.ledger(|ledger| ledger.committed(&order)),
            Err(TransactError::Body(NoOrder::CardRefused)) => {
                self.receiver.ledger(|ledger| ledger.rolled_back())
            }
            Err(error) => return Err(CommandError::failed(format!("an order was not written: {error}"))),
        }
        Ok(())
    }

    /// Places all orders of a plan at the planned rate.
    pub(crate) async fn place_all(self: Arc<Self>, plan: Plan) -> CommandResult {
        let mut bursts = interval(BURST_EVERY);
        bursts.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut placing = JoinSet::new();
        let size = (plan.rate() / BURSTS_PER_SECOND).max(1) as usize;
        for burst in plan.orders.chunks(size) {
            bursts.tick().await;
            for &planned in burst {
                if placing.len() >= AT_ONCE {
                    ended(placing.join_next().await)?;
                }
                let shop = Arc::clone(&self);
                placing.spawn(async move { shop.place(planned).await });
            }
        }
        while !placing.is_empty() {
            ended(placing.join_next().await)?;
        }
        Ok(())
    }

    pub(crate) async fn close(&self) {
        self.outbox.close().await;
    }
}

fn ended(placed: Option<Result<CommandResult, tokio::task::JoinError>>) -> CommandResult {
    match placed {
        None => Ok(()),
        Some(Ok(outcome)) => outcome,
        Some(Err(_)) => Err(CommandError::failed("the shop's code panicked")),
    }
}
