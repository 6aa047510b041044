//! `pillarbox-bench [engine|sqlite|SERVER [PART...]|peers [CONTENDER...]] [--quick]`: measures in turns, prints ratios.
#![expect(clippy::print_stdout, reason = "a benchmark's output is its purpose")]

use pillarbox_bench::engine::{self, PerTransaction};
use pillarbox_bench::figure::Figure;
use pillarbox_bench::postgres::{self, Sizes};
use pillarbox_bench::report::{Line, Rates};
use pillarbox_bench::{adapter, mariadb, mongodb, peers, sinks, sqlite};
use tokio::runtime::Runtime;

const ROUNDS: usize = 5;
const USAGE: &str = "usage: pillarbox-bench [engine|sqlite|postgres|mariadb|mongodb|nats|kafka [PART...]] [--quick]\n\
     usage: pillarbox-bench peers [CONTENDER...] [--quick|--smoke]";

/// A store or a sink that is measured on a server.
struct Server {
    name: &'static str,
    /// What tells where it is.
    variable: &'static str,
    parts: &'static [&'static str],
    run: fn(&Runtime, &str, &str, &Sizes) -> anyhow::Result<Vec<Figure>>,
}

const SERVERS: &[Server] = &[
    Server {
        name: "postgres",
        variable: "PILLARBOX_TEST_POSTGRES_URL",
        parts: &postgres::PARTS,
        run: |runtime, part, url, sizes| runtime.block_on(postgres::run(part, url, sizes)),
    },
    Server {
        name: "mariadb",
        variable: "PILLARBOX_TEST_MARIADB_URL",
        parts: &mariadb::PARTS,
        run: |runtime, part, url, sizes| runtime.block_on(mariadb::run(part, url, sizes)),
    },
    Server {
        name: "mongodb",
        variable: "PILLARBOX_TEST_MONGODB_URL",
        parts: &mongodb::PARTS,
        run: |runtime, part, url, sizes| runtime.block_on(mongodb::run(part, url, sizes)),
    },
    Server {
        name: "nats",
        variable: "PILLARBOX_TEST_NATS_URL",
        parts: &sinks::PARTS,
        run: |runtime, part, url, sizes| runtime.block_on(sinks::nats::run(part, url, sizes)),
    },
    #[cfg(feature = "kafka")]
    Server {
        name: "kafka",
        variable: "PILLARBOX_TEST_KAFKA_URL",
        parts: &sinks::PARTS,
        run: |runtime, part, url, sizes| runtime.block_on(sinks::kafka::run(part, url, sizes)),
    },
];

fn main() -> anyhow::Result<()> {
    let (options, words): (Vec<_>, Vec<_>) = std::env::args().skip(1).partition(|word| word.starts_with('-'));
    if options.iter().any(|option| option == "--help" || option == "-h") {
        println!("{USAGE}");
        SERVERS.iter().for_each(|server| println!("parts of {}: {}", server.name, server.parts.join(", ")));
        return Ok(());
    }
    match words.split_first() {
        Some((first, names)) if first == "peers" => return compare(names, &options),
        Some((first, arguments)) if first == "adapter" => return adapt(arguments),
        _ => {}
    }
    anyhow::ensure!(options.iter().all(|option| option == "--quick"), USAGE);
    let sizes = if options.is_empty() { Sizes::full() } else { Sizes::quick() };
    let (only, parts) = match words.split_first() {
        Some((only, parts)) => (Some(only.as_str()), parts),
        None => (None, [].as_slice()),
    };
    let is_server = |name: &str| SERVERS.iter().any(|server| server.name == name);
    anyhow::ensure!(only.is_none_or(|only| ["engine", "sqlite"].contains(&only) || is_server(only)), USAGE);
    anyhow::ensure!(parts.is_empty() || only.is_some_and(is_server), USAGE);
    let wanted = |name: &str| only.is_none_or(|only| only == name);
    if wanted("engine") || wanted("sqlite") {
        println!("{ROUNDS} rounds in turns; median (lowest to highest); ratio: median of the rounds' ratios");
    }
    if wanted("engine") {
        engines()?;
    }
    if wanted("sqlite") {
        sqlites()?;
    }
    for server in SERVERS.iter().filter(|server| wanted(server.name)) {
        match std::env::var(server.variable) {
            Ok(url) => measure(server, &url, parts, &sizes)?,
            Err(_) if only.is_none() => {
                println!("could not run: {}: {} is not set", server.name, server.variable);
            }
            Err(_) => anyhow::bail!("{} is not set; `cargo xtask bench` starts a server", server.variable),
        }
    }
    Ok(())
}

fn runtime() -> anyhow::Result<Runtime> {
    Ok(tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?)
}

/// Measures Pillarbox beside its peers.
fn compare(names: &[String], options: &[String]) -> anyhow::Result<()> {
    let size = match options {
        [] => peers::Size::Full,
        [option] if option == "--quick" => peers::Size::Quick,
        [option] if option == "--smoke" => peers::Size::Smoke,
        _ => anyhow::bail!(USAGE),
    };
    let url = std::env::var("PILLARBOX_TEST_POSTGRES_URL");
    let url = url.map_err(|_| anyhow::anyhow!("no PostgreSQL; `cargo xtask bench peers` starts one"))?;
    runtime()?.block_on(peers::run(&url, names, size, |line| println!("{line}")))
}

/// Is one of our contenders in a comparison with peers.
fn adapt(arguments: &[String]) -> anyhow::Result<()> {
    let Some((name, arguments)) = arguments.split_first() else { anyhow::bail!(USAGE) };
    let runtime = runtime()?;
    let ran = runtime.block_on(adapter::run(name, arguments));
    // Its consumer has nothing to save.
    runtime.shutdown_background();
    ran
}

fn measure(server: &Server, url: &str, parts: &[String], sizes: &Sizes) -> anyhow::Result<()> {
    let named: Vec<&str> = parts.iter().map(String::as_str).collect();
    let parts = if named.is_empty() { server.parts.to_vec() } else { named };
    let runtime = runtime()?;
    println!(
        "{}, {} rounds in turns; median (lowest to highest); ratio: of the rounds' own ratios\n",
        server.name, sizes.rounds
    );
    println!("{}", Figure::heading());
    for part in parts {
        for figure in (server.run)(&runtime, part, url, sizes)? {
            println!("{}", figure.text());
        }
    }
    Ok(())
}

fn engines() -> anyhow::Result<()> {
    const EVENTS: usize = 200_000;
    for per in [1, 10, 100] {
        let mut ours = Rates::default();
        for _ in 0..ROUNDS {
            ours.push(EVENTS, engine::run(EVENTS, PerTransaction(per))?);
        }
        let what = format!("engine, a core's second, {per} events a transaction");
        println!("{}", Line { what, ours, floor: None, goal: 500_000.0 }.text());
    }
    Ok(())
}

fn sqlites() -> anyhow::Result<()> {
    let runtime = runtime()?;
    for (writers, events) in [(1, 2_000), (8, 4_000)] {
        let (mut ours, mut floor) = (Rates::default(), Rates::default());
        for _ in 0..ROUNDS {
            let dir = tempfile::tempdir_in(".")?;
            floor.push(events, sqlite::bare_end_to_end(&dir.path().join("bare.db"), events)?);
            ours.push(
                events,
                runtime.block_on(sqlite::end_to_end(&dir.path().join("ours.db"), events, writers))?,
            );
        }
        let what = format!("sqlite, write + deliver + settle, {writers} writers");
        println!("{}", Line { what, ours, floor: Some(floor), goal: 0.80 }.text());
    }
    let events = 100_000;
    let (mut ours, mut floor) = (Rates::default(), Rates::default());
    for _ in 0..ROUNDS {
        let dir = tempfile::tempdir_in(".")?;
        let (first, second) = (dir.path().join("bare.db"), dir.path().join("ours.db"));
        runtime.block_on(sqlite::fill(&first, events))?;
        runtime.block_on(sqlite::fill(&second, events))?;
        floor.push(events, sqlite::bare_drain(&first, events)?);
        ours.push(events, runtime.block_on(sqlite::drain(&second, events))?);
    }
    let what = format!("sqlite, drain {events} waiting events");
    println!("{}", Line { what, ours, floor: Some(floor), goal: 0.80 }.text());
    Ok(())
}
