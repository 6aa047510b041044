//! What can be asked of `cargo xtask servers`.

use std::path::Path;

use super::exports;
use super::ground::Ground;
use super::instance::{self, Instance};
use super::runner::Life;
use super::start::start;
use super::{ALL, Need, Server, find};

/// One request, parsed.
#[derive(Debug)]
pub(crate) enum Action {
    Up { servers: Vec<&'static dyn Server>, chosen: Chosen },
    Down { servers: Vec<&'static dyn Server> },
    Status,
}

/// Who chose the servers; one that was asked for by name must come up.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Chosen {
    ByName,
    ByDefault,
}

impl Action {
    /// Reads the arguments after `servers`.
    pub(crate) fn parse(arguments: &[String]) -> Result<Self, String> {
        let Some((verb, names)) = arguments.split_first() else {
            return Err("servers: one of up, down, status".into());
        };
        let servers: Vec<_> = names.iter().map(|name| find(name)).collect::<Result<_, _>>()?;
        let chosen = if servers.is_empty() { Chosen::ByDefault } else { Chosen::ByName };
        let servers = if servers.is_empty() { ALL.to_vec() } else { servers };
        match (verb.as_str(), chosen) {
            ("up", chosen) => Ok(Self::Up { servers, chosen }),
            ("down", _) => Ok(Self::Down { servers }),
            ("status", Chosen::ByDefault) => Ok(Self::Status),
            ("status", Chosen::ByName) => Err(format!("unexpected argument `{}`", names[0])),
            _ => Err(format!("unknown request `{verb}`: one of up, down, status")),
        }
    }
}

/// Does it; tells whether it went well. Lines on standard output are for a shell to evaluate.
pub(crate) fn run(action: &Action, root: &Path) -> bool {
    let ground = match Ground::kept(root) {
        Ok(ground) => ground,
        Err(why) => {
            eprintln!("{why}");
            return false;
        }
    };
    match action {
        Action::Up { servers, chosen } => all(servers, |server| up(server, *chosen, &ground)),
        Action::Down { servers } => all(servers, |server| down(server, &ground)),
        Action::Status => all(&ALL, |server| status(server, &ground)),
    }
}

/// Gives every server its turn, whatever became of the one before.
fn all(servers: &[&dyn Server], each: impl Fn(&dyn Server) -> bool) -> bool {
    servers.iter().filter(|server| !each(**server)).count() == 0
}

fn up(server: &dyn Server, chosen: Chosen, ground: &Ground) -> bool {
    let running = Instance::load(&ground.place_of(server.name()));
    match running.map_or_else(|| start(server, ground, Life::Detached), Ok) {
        Ok(instance) => {
            eprintln!("{}: up, process {}", server.name(), instance.record.pid);
            println!("{}", exports::set(&(server.variable(), server.url(instance.record.port))));
            let extras = server.find().map(|home| server.extras(&home)).unwrap_or_default();
            extras.iter().for_each(|extra| println!("{}", exports::set(extra)));
            true
        }
        Err(why) => {
            eprintln!("could not run: {}: {why}", server.name());
            chosen == Chosen::ByDefault && server.need() == Need::May
        }
    }
}

fn down(server: &dyn Server, ground: &Ground) -> bool {
    let ended = instance::clear(&ground.place_of(server.name()));
    println!("{}", exports::unset(server.variable()));
    ended.map_err(|why| eprintln!("{}: {why}", server.name())).is_ok()
}

fn status(server: &dyn Server, ground: &Ground) -> bool {
    let (name, running) = (server.name(), Instance::load(&ground.place_of(server.name())));
    match running.map(|instance| instance.record) {
        Some(record) => println!("{name:<14}up    {}  process {}", server.url(record.port), record.pid),
        None => println!("{name:<14}down"),
    }
    true
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
    fn what_is_unknown_is_named() {
        assert_eq!(parse("").unwrap_err(), "servers: one of up, down, status");
        assert_eq!(parse("restart").unwrap_err(), "unknown request `restart`: one of up, down, status");
        assert_eq!(parse("status postgres-15").unwrap_err(), "unexpected argument `postgres-15`");
        assert!(parse("up oracle").unwrap_err().contains("`oracle`"));
    }
}
