//! The servers of one test or benchmark run, which end with it.

use std::path::Path;

use super::exports::{self, Export};
use super::ground::Ground;
use super::instance::Instance;
use super::runner::Life;
use super::start::start;
use super::{Lack, Need, Server};

/// What a run has at its disposal.
#[derive(Debug, Default)]
pub(crate) struct Fleet {
    ground: Option<Ground>,
    instances: Vec<Instance>,
    exports: Vec<Export>,
    /// Servers that the run can do without, with the reasons why they are not there.
    pub(crate) could_not_run: Vec<String>,
    /// The same for those it must have.
    pub(crate) lacks: Vec<String>,
}

impl Fleet {
    /// Starts those of the servers that the environment does not name, except what is known to be lacking.
    pub(crate) fn bring_up(root: &Path, servers: &[&dyn Server], lacks: &[Lack]) -> Self {
        let mut fleet = Self::default();
        let (given, ours) = exports::split(servers, exports::variable);
        for server in given {
            println!("{}: the one that {} names", server.name(), server.variable());
            fleet.exports.extend(server.find().into_iter().flat_map(|home| server.extras(&home)));
        }
        for server in ours {
            let lack = lacks.iter().find(|lack| lack.server == server.name());
            match lack.map_or_else(|| fleet.add(server, root), |lack| Err(lack.why.clone())) {
                Ok(url) => println!("{}: up at {url}", server.name()),
                Err(why) => fleet.miss(server, &why),
            }
        }
        fleet
    }

    /// The variables that tell the run's programs of the servers, beside those that are set already.
    pub(crate) fn exports(&self) -> impl Iterator<Item = (&'static str, &str)> {
        self.exports.iter().map(|(name, value)| (*name, value.as_str()))
    }

    /// Takes down what was started; the error names what is left.
    pub(crate) fn end(&mut self) -> Result<(), String> {
        let ended: Vec<_> = self.instances.drain(..).map(Instance::end).collect();
        let cleared = self.ground.take().map_or(Ok(()), |ground| ground.clear());
        ended.into_iter().collect::<Result<(), _>>().and(cleared)
    }

    fn add(&mut self, server: &dyn Server, root: &Path) -> Result<String, String> {
        let ground = match self.ground.take() {
            Some(ground) => ground,
            None => Ground::of_this_run(root)?,
        };
        let started = start(server, self.ground.insert(ground), Life::Ours)?;
        let url = server.url(started.record.port);
        self.instances.push(started);
        self.exports.push((server.variable(), url.clone()));
        self.exports.extend(server.find().into_iter().flat_map(|home| server.extras(&home)));
        Ok(url)
    }

    fn miss(&mut self, server: &dyn Server, why: &str) {
        let line = format!("{}: {why}", server.name());
        match server.need() {
            Need::Must => self.lacks.push(line),
            Need::May => self.could_not_run.push(line),
        }
    }
}

impl Drop for Fleet {
    fn drop(&mut self) {
        if let Err(left) = self.end() {
            eprintln!("{left}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::servers::find;

    #[test]
    fn only_a_server_that_must_be_there_is_a_lack() {
        let mut fleet = Fleet::default();
        fleet.miss(find("postgres-15").unwrap(), "not installed");
        fleet.miss(find("postgres-18").unwrap(), "no network");
        assert_eq!(fleet.lacks, ["postgres-15: not installed"]);
        assert_eq!(fleet.could_not_run, ["postgres-18: no network"]);
    }
}
