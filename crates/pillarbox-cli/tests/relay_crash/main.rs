//! Three relays on one database, killed and stopped at random while an endpoint fails now and then: nothing lost, no group out of order.
//!
//! The checker stands on the endpoint's side: it sees what arrived, and when.

mod attempts;
mod endpoint;
mod outbox;
mod relays;

use std::io::Write as _;
use std::process::ExitCode;
use std::time::Duration;

use libtest_mimic::{Arguments, Completion, Failed, Trial};
use pillarbox::model::Layout;

use crate::endpoint::{Endpoint, Fault, Manners};
use crate::outbox::Outbox;
use crate::relays::Relays;

const GROUPS: usize = 50;
/// How much is done to a database: a slow one gets less.
#[derive(Clone, Copy)]
struct Size {
    items: usize,
    kills: usize,
    /// Items of the case without faults.
    fewer: usize,
}

const WHOLE: Size = Size { items: 20_000, kills: 30, fewer: 5_000 };
const SMALL: Size = Size { items: 3_000, kills: 10, fewer: 1_000 };
/// One relay is stopped past its lease after so many kills.
const KILLS_PER_STOP: usize = 8;
const RELAYS: usize = 3;
/// Nothing takes so long.
const NEVER: Duration = Duration::from_secs(300);

/// The databases that are tried, by the variable that names one.
const DATABASES: [(&str, &str, Size); 3] = [
    ("postgres", "PILLARBOX_TEST_POSTGRES_URL", WHOLE),
    ("mariadb", "PILLARBOX_TEST_MARIADB_URL", WHOLE),
    ("mongodb", "PILLARBOX_TEST_MONGODB_URL", SMALL),
];

type Run = fn(&str, Layout, Size) -> Result<(), String>;

const CASES: [(&str, Run); 2] = [
    ("killed_relays_lose_nothing_and_keep_every_group_in_order", nothing_is_lost),
    ("healthy_relays_deliver_each_item_once", each_comes_once),
];

fn main() -> ExitCode {
    let forged = attempts::FORGED.into_iter();
    let mut trials: Vec<Trial> =
        forged.map(|(name, run)| Trial::test(format!("checker::{name}"), run)).collect();
    for (database, variable, size) in DATABASES {
        for layout in Layout::ALL {
            for (name, run) in CASES {
                let title = format!("{database}::{layout}::{name}");
                trials
                    .push(Trial::ignorable_test(title, move || trial(database, variable, layout, size, run)));
            }
        }
    }
    let mut arguments = Arguments::from_args();
    // Others beside it would let leases run out.
    arguments.test_threads = Some(1);
    libtest_mimic::run(&arguments, trials).exit_code()
}

fn trial(database: &str, variable: &str, layout: Layout, size: Size, run: Run) -> Result<Completion, Failed> {
    let Ok(url) = std::env::var(variable) else {
        let _ = writeln!(std::io::stdout(), "could not run: {database}: {variable} is not set");
        return Ok(Completion::ignored_with(format!("could not run: {variable} is not set")));
    };
    run(&url, layout, size).map(|()| Completion::Completed).map_err(Failed::from)
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("a runtime")
}

/// RLY-001, RLY-010, RLY-021, RLY-023, RLY-031, RLY-032, PBX-010, PBX-011, PBX-013, PBX-024
fn nothing_is_lost(url: &str, layout: Layout, size: Size) -> Result<(), String> {
    let Size { items, kills, .. } = size;
    runtime().block_on(async {
        let endpoint = Endpoint::start(Manners::Moody).await;
        let outbox = Outbox::create(url, layout).await;
        let mut relays = Relays::start(RELAYS, url, &outbox, &endpoint);
        let writing = outbox.write(items, GROUPS);
        let mut faults = Vec::new();
        let blows = async {
            for blow in 1..=kills {
                endpoint.until_accepted(items * blow / (kills + 2), NEVER).await?;
                faults.push(relays.kill_one(&outbox, &endpoint).await?);
                if blow % KILLS_PER_STOP == 0 {
                    faults.push(relays.stop_one(&outbox, &endpoint).await?);
                }
            }
            endpoint.until_accepted(items, NEVER).await
        };
        let ((), arrived) = tokio::join!(writing, blows);
        arrived?;
        let changes = relays.changes_of_members(&faults);
        relays.stop(&outbox).await?;
        endpoint.check(items)?;
        endpoint.check_repeated(&faults)?;
        outbox.check_settled(items).await?;
        endpoint.complete(&mut faults);
        check_attempts(&outbox, &endpoint, &faults, changes).await
    })
}

/// RLY-010, RLY-020, RLY-031, RLY-033, PBX-011, PBX-012
fn each_comes_once(url: &str, layout: Layout, size: Size) -> Result<(), String> {
    let fewer = size.fewer;
    runtime().block_on(async {
        let endpoint = Endpoint::start(Manners::Good).await;
        let outbox = Outbox::create(url, layout).await;
        let relays = Relays::start(RELAYS, url, &outbox, &endpoint);
        let ((), arrived) = tokio::join!(outbox.write(fewer, GROUPS), endpoint.until_accepted(fewer, NEVER));
        arrived?;
        relays.stop(&outbox).await?;
        endpoint.check(fewer)?;
        endpoint.check_each_once()?;
        outbox.check_settled(fewer).await?;
        // A relay that a busy machine holds up may be evicted, and its groups go alone.
        check_attempts(&outbox, &endpoint, &[], RELAYS).await
    })
}

async fn check_attempts(
    outbox: &Outbox,
    endpoint: &Endpoint,
    faults: &[Fault],
    changes_of_members: usize,
) -> Result<(), String> {
    let mut items = endpoint.tries();
    outbox.count_attempts(&mut items).await?;
    attempts::check(&items, faults, changes_of_members)
}
