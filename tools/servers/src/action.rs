//! Parses and runs `cargo xtask servers`.

use std::path::Path;
use std::process::Command;
use std::thread;

use super::exports::{self, Export};
use super::instance::{self, Instance};
use super::runner::Life;
use super::start::{home_of, start};
use super::tool::{TOOLS, Tool};
use super::workspace::Workspace;
use super::{ALL, Fleet, Necessity, Server, find};
use crate::process;

/// Separates the names of servers from a command.
const DASHES: &str = "--";

/// A parsed command line.
#[derive(Debug)]
pub enum Action {
    /// Start servers that keep running.
    Up {
        /// The servers.
        servers: Vec<&'static dyn Server>,
        /// Whether the caller named them.
        chosen: Chosen,
    },
    /// Stop servers and remove their data.
    Down {
        /// The servers.
        servers: Vec<&'static dyn Server>,
    },
    /// Print which servers run.
    Status,
    /// Run a command with servers that stop when it ends.
    Run {
        /// The servers.
        servers: Vec<&'static dyn Server>,
        /// The command and its arguments.
        command: Vec<String>,
    },
}

/// How the servers were selected. A server that is named must start.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Chosen {
    /// The caller named them.
    ByName,
    /// The caller named none, so all are selected.
    ByDefault,
}

impl Action {
    /// Parses the arguments after `servers`.
    pub fn parse(arguments: &[String]) -> Result<Self, String> {
        let Some((verb, names)) = arguments.split_first() else {
            return Err("servers: one of up, down, status, run".into());
        };
        if verb == "run" {
            return Self::parse_run(names);
        }
        let servers: Vec<_> = names.iter().map(|name| find(name)).collect::<Result<_, _>>()?;
        let chosen = if servers.is_empty() { Chosen::ByDefault } else { Chosen::ByName };
        let servers = if servers.is_empty() { ALL.to_vec() } else { servers };
        match (verb.as_str(), chosen) {
            ("up", chosen) => Ok(Self::Up { servers, chosen }),
            ("down", _) => Ok(Self::Down { servers }),
            ("status", Chosen::ByDefault) => Ok(Self::Status),
            ("status", Chosen::ByName) => Err(format!("unexpected argument `{}`", names[0])),
            _ => Err(format!("unknown request `{verb}`: one of up, down, status, run")),
        }
    }

    fn parse_run(arguments: &[String]) -> Result<Self, String> {
        let dashes = arguments.iter().position(|argument| argument == DASHES);
        let (names, command) = arguments.split_at(dashes.unwrap_or(arguments.len()));
        if names.is_empty() || command.len() < 2 {
            return Err(format!("servers run: name servers, then `{DASHES}` and a command"));
        }
        let servers = names.iter().map(|name| find(name)).collect::<Result<_, _>>()?;
        Ok(Self::Run { servers, command: command[1..].to_vec() })
    }
}

/// Runs an action and returns whether it succeeded. A shell can evaluate the lines on standard output.
pub fn run(action: &Action, root: &Path) -> bool {
    let done = match action {
        Action::Run { servers, command } => run_beside(servers, command, root).map(|()| true),
        Action::Up { servers, chosen } => {
            Workspace::kept(root).and_then(|workspace| up_all(servers, *chosen, &workspace))
        }
        Action::Down { servers } => Workspace::kept(root).map(|workspace| down_all(servers, &workspace)),
        Action::Status => Workspace::kept(root).map(|workspace| {
            ALL.iter().for_each(|server| status(*server, &workspace));
            true
        }),
    };
    done.unwrap_or_else(|why| {
        eprintln!("{why}");
        false
    })
}

/// Runs a command with servers that stop when it ends.
fn run_beside(servers: &[&'static dyn Server], command: &[String], root: &Path) -> Result<(), String> {
    let mut fleet = Fleet::bring_up(root, servers)?;
    let mut program = Command::new(&command[0]);
    // Bound to this process: the servers end with us, and the command needs them.
    let mut program = process::bound(program.args(&command[1..]).envs(fleet.exports()));
    let is_complete = fleet.could_not_run.is_empty();
    let missing = if is_complete { Ok(()) } else { Err("not all of them started".to_owned()) };
    let ran =
        missing.and_then(|()| process::run(&mut program).map_err(|why| format!("{}: {why}", command[0])));
    ran.and(fleet.end())
}

/// Starts the servers in parallel. The failure of one does not affect the others.
fn up_all(servers: &[&'static dyn Server], chosen: Chosen, workspace: &Workspace) -> Result<bool, String> {
    workspace.check_space()?;
    let tools: &[&Tool] = if chosen == Chosen::ByDefault { &TOOLS } else { &[] };
    thread::scope(|scope| {
        let started: Vec<_> =
            servers.iter().map(|server| (*server, scope.spawn(move || up(*server, workspace)))).collect();
        let got: Vec<_> = tools.iter().map(|tool| scope.spawn(move || get(tool, workspace))).collect();
        let mut is_good = true;
        for (server, thread) in started {
            let exports = thread.join().ok().flatten();
            is_good &= exports.is_some() || (chosen == Chosen::ByDefault && server.need() == Necessity::May);
            exports.iter().flatten().for_each(|export| println!("{}", exports::set(export)));
        }
        for export in got.into_iter().filter_map(|thread| thread.join().ok().flatten()) {
            println!("{}", exports::set(&export));
        }
        Ok(is_good)
    })
}

fn up(server: &dyn Server, workspace: &Workspace) -> Option<Vec<Export>> {
    let folder = workspace.place_of(server.name());
    let start_it = || {
        let fetch = || {
            eprintln!("{}: being fetched", server.name());
            server.install()
        };
        let home = server.find().map_or_else(fetch, Ok)?;
        start(server, home, &folder, Life::Detached).map(|started| (started.instance, Some(started.home)))
    };
    let running = Instance::load(&folder)
        .map(|instance| (instance, server.find().map(|found| home_of(found, &folder))));
    match running.map_or_else(start_it, Ok) {
        Ok((instance, home)) => {
            eprintln!("{}: up, process {}", server.name(), instance.record.pid);
            let extras = home.map(|home| server.extras(&home)).unwrap_or_default();
            Some([(server.variable(), server.url(instance.record.port))].into_iter().chain(extras).collect())
        }
        Err(why) => {
            eprintln!("could not run: {}: {why}", server.name());
            None
        }
    }
}

fn get(tool: &Tool, workspace: &Workspace) -> Option<Export> {
    let got = tool.get(&workspace.place_of(tool.name));
    let path = got.map_err(|why| eprintln!("could not get: {}: {why}", tool.name)).ok()?;
    Some((tool.variable, path.display().to_string()))
}

/// Stops the servers one after another, even if one fails. Removes the tools if all servers are selected.
fn down_all(servers: &[&dyn Server], workspace: &Workspace) -> bool {
    let tools: &[&Tool] = if servers.len() == ALL.len() { &TOOLS } else { &[] };
    let servers = servers.iter().map(|server| {
        let extras = server.extras(Path::new(""));
        let names = [server.variable()].into_iter().chain(extras.into_iter().map(|(name, _)| name));
        down(server.name(), names.collect(), workspace)
    });
    let tools = tools.iter().map(|tool| down(tool.name, vec![tool.variable], workspace));
    servers.chain(tools).filter(|is_gone| !is_gone).count() == 0
}

fn down(name: &str, variables: Vec<&str>, workspace: &Workspace) -> bool {
    let ended = instance::clear(&workspace.place_of(name));
    variables.into_iter().for_each(|variable| println!("{}", exports::unset(variable)));
    ended.map_err(|why| eprintln!("{name}: {why}")).is_ok()
}

fn status(server: &dyn Server, workspace: &Workspace) {
    let (name, running) = (server.name(), Instance::load(&workspace.place_of(server.name())));
    match running.map(|instance| instance.record) {
        Some(record) => println!("{name:<14}up    {}  process {}", server.url(record.port), record.pid),
        None => println!("{name:<14}down"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Action, String> {
        Action::parse(&line.split_whitespace().map(String::from).collect::<Vec<_>>())
    }

    #[test]
    fn without_names_all_servers_are_meant() {
        let Ok(Action::Up { servers, chosen }) = parse("up") else { panic!("not an up") };
        assert_eq!((servers.len(), chosen), (ALL.len(), Chosen::ByDefault));
        assert!(matches!(parse("down"), Ok(Action::Down { servers }) if servers.len() == ALL.len()));
    }

    #[test]
    fn with_names_only_these_are_meant() {
        let Ok(Action::Up { servers, chosen }) = parse("up postgres-18") else { panic!("not an up") };
        assert_eq!((servers[0].name(), servers.len(), chosen), ("postgres-18", 1, Chosen::ByName));
    }

    #[test]
    fn a_command_is_run_beside_the_named_servers() {
        let Ok(Action::Run { servers, command }) = parse("run redis nats -- env --help") else {
            panic!("no run")
        };
        assert_eq!((servers.len(), command.join(" ").as_str()), (2, "env --help"));
        let why = "servers run: name servers, then `--` and a command";
        for line in ["run", "run redis", "run redis --", "run -- env"] {
            assert_eq!(parse(line).unwrap_err(), why, "{line}");
        }
    }

    #[test]
    fn what_is_unknown_is_named() {
        assert_eq!(parse("").unwrap_err(), "servers: one of up, down, status, run");
        assert_eq!(parse("restart").unwrap_err(), "unknown request `restart`: one of up, down, status, run");
        assert_eq!(parse("status postgres-15").unwrap_err(), "unexpected argument `postgres-15`");
        assert!(parse("up oracle").unwrap_err().contains("`oracle`"));
    }
}
