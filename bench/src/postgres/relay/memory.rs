//! What a relay's process holds in memory beside a large backlog.

use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use pillarbox::model::Layout;

use super::{Endpoint, Table};
use crate::database::Kind;
use crate::figure::{Figure, Goal, Samples};
use crate::postgres::Sizes;
use crate::postgres::fixture::Fixture;

const PENDING: usize = 1_000_000;
const MANY_GROUPS: usize = 10_000;
const LOOKS: usize = 40;
const BETWEEN_LOOKS: Duration = Duration::from_millis(250);

/// A process that ends with its handle.
struct Relay(Child);

impl Drop for Relay {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

pub(crate) async fn measure(url: &str, _: &Sizes) -> anyhow::Result<Vec<Figure>> {
    let fixture = Fixture::new(url).await?;
    fixture.fill(PENDING, Kind::Groups(MANY_GROUPS)).await?;
    fixture.calm().await?;
    let table = Table { fixture, layout: Layout::Native, rows: PENDING };
    let endpoint = Endpoint::start().await?;
    let relay = Relay(
        Command::new(program()?)
            .args(["relay", "--database-url", url, "--layout", "native", "--schema", table.fixture.schema()])
            .args(["--api-base-url", &endpoint.url])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn()?,
    );
    let mut held = Samples::default();
    for _ in 0..LOOKS {
        tokio::time::sleep(BETWEEN_LOOKS).await;
        held.push(resident(relay.0.id())?);
    }
    let left = table.fixture.pending().await?;
    drop(relay);
    table.fixture.remove().await?;
    let done = PENDING - left;
    let what = format!("relay, memory beside {PENDING} pending in {MANY_GROUPS} groups ({done} delivered)");
    let mut most = Samples::default();
    most.push(held.quantile(1.0));
    Ok(vec![
        Figure::alone(format!("{what}, over time"), "MiB", &held, Goal::None),
        Figure::alone(format!("{what}, most"), "MiB", &most, Goal::AtMost(64.0)),
    ])
}

/// The relay, beside this program.
fn program() -> anyhow::Result<PathBuf> {
    let program = std::env::current_exe()?.with_file_name("pillarbox");
    anyhow::ensure!(program.exists(), "build the relay first: cargo build --release -p pillarbox-cli");
    Ok(program)
}

/// What a process holds in memory, in MiB.
fn resident(pid: u32) -> anyhow::Result<f64> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib =
        line.and_then(|line| line.split_whitespace().next()).and_then(|number| number.parse::<f64>().ok());
    kib.map(|kib| kib / 1_024.0).ok_or_else(|| anyhow::anyhow!("the relay has ended"))
}
