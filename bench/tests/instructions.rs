//! The engine's paths keep to a number of instructions for each event, which needs no clock and no quiet machine.

use std::io::Write as _;
use std::path::Path;
use std::process::Command;

use pillarbox_bench::instructions::Scenario;

/// Names the program that counts.
const VALGRIND: &str = "PILLARBOX_TEST_VALGRIND";
/// Two sizes: their difference has no start and no end in it.
const FEW: u64 = 1_000;
const MANY: u64 = 4_000;

/// The bound for one event, about a tenth above what was counted on x86-64 in the build of the tests, whose engine is
/// optimised little. Lower it when the engine gets faster; raise it only with a reason in the commit.
const fn bound(scenario: Scenario) -> u64 {
    match scenario {
        Scenario::Single => 95_000,
        Scenario::Hundred => 78_000,
        Scenario::Ordered => 87_000,
        Scenario::Queue => 80_000,
    }
}

/// PBX-142: what the engine does for an event does not grow unnoticed.
#[test]
fn each_path_keeps_to_its_instructions() {
    let Ok(valgrind) = std::env::var(VALGRIND) else {
        let _ = writeln!(std::io::stdout(), "could not run: counting instructions: {VALGRIND} is not set");
        return;
    };
    let counted: Vec<(Scenario, u64)> = Scenario::ALL
        .into_iter()
        .map(|scenario| {
            let [few, many] = [FEW, MANY].map(|events| count(&valgrind, scenario, events));
            (scenario, (many - few) / (MANY - FEW))
        })
        .collect();
    for (scenario, each) in &counted {
        let _ = writeln!(std::io::stdout(), "{}: {each} instructions for each event", scenario.name());
    }
    let over: Vec<_> = counted.iter().filter(|(scenario, each)| *each > bound(*scenario)).collect();
    assert!(over.is_empty(), "more instructions for each event than the bound: {over:?}");
}

/// The instructions of a whole run.
fn count(valgrind: &str, scenario: Scenario, events: u64) -> u64 {
    let mut command = Command::new(valgrind);
    // An unpacked valgrind looks for its tools where an installed one has them.
    let tools = Path::new(valgrind).ancestors().nth(2).map(|usr| usr.join("libexec/valgrind"));
    if let Some(tools) = tools.filter(|tools| tools.is_dir()) {
        command.env("VALGRIND_LIB", tools);
    }
    command.args(["--tool=cachegrind", "--cache-sim=no", "--cachegrind-out-file=/dev/null"]);
    command.arg(env!("CARGO_BIN_EXE_pillarbox-instructions")).args([scenario.name(), &events.to_string()]);
    let output = command.output().expect("valgrind starts");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    let line = said.lines().find_map(|line| line.split_once("I   refs:").or(line.split_once("I refs:")));
    let number: String = line.map(|(_, number)| number.replace(',', "")).unwrap_or_default();
    number.trim().parse().unwrap_or_else(|_| panic!("no count in: {said}"))
}
