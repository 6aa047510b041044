//! `pillarbox-instructions SCENARIO EVENTS`: runs one path of the engine, for a tool that counts instructions.

use pillarbox_bench::instructions::{Scenario, run};

fn main() -> anyhow::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [scenario, events] = arguments.as_slice() else {
        anyhow::bail!("usage: pillarbox-instructions SCENARIO EVENTS");
    };
    let scenario = Scenario::ALL.into_iter().find(|known| known.name() == scenario);
    let scenario = scenario.ok_or_else(|| anyhow::anyhow!("unknown scenario"))?;
    run(scenario, events.parse()?)
}
