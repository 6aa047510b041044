//! Gets the software of servers while something else goes on.

use std::thread::{self, JoinHandle};

use super::{Server, exports};

/// A server whose software is not to be had, and why.
#[derive(Debug)]
pub(crate) struct Lack {
    pub(super) server: &'static str,
    pub(super) why: String,
}

/// Software on its way: a thread gets what is missing, one after another, each within its limit.
#[derive(Debug)]
pub(crate) struct Software {
    thread: Option<JoinHandle<Vec<Lack>>>,
}

impl Software {
    /// Begins to get what those of the servers need that the environment does not name.
    pub(crate) fn gather(servers: &'static [&'static dyn Server]) -> Self {
        let (_, ours) = exports::split(servers, exports::variable);
        Self::gather_for(ours)
    }

    fn gather_for(servers: Vec<&'static dyn Server>) -> Self {
        let get = move || servers.into_iter().filter_map(lack).collect();
        Self { thread: thread::Builder::new().name("software".into()).spawn(get).ok() }
    }

    /// Waits until nothing is on its way any more; names what did not come.
    pub(crate) fn wait(mut self) -> Vec<Lack> {
        self.join()
    }

    fn join(&mut self) -> Vec<Lack> {
        // Without the thread each server gets its own when it starts.
        self.thread.take().and_then(|thread| thread.join().ok()).unwrap_or_default()
    }
}

impl Drop for Software {
    fn drop(&mut self) {
        self.join();
    }
}

fn lack(server: &dyn Server) -> Option<Lack> {
    if server.find().is_some() {
        return None;
    }
    server.install().err().map(|why| Lack { server: server.name(), why })
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;
    use std::process::Command;

    use super::super::{Need, Site};
    use super::*;

    /// Is not to be had, or is there.
    #[derive(Debug)]
    struct Fake {
        name: &'static str,
        home: Option<&'static str>,
    }

    impl Server for Fake {
        fn name(&self) -> &'static str {
            self.name
        }

        fn variable(&self) -> &'static str {
            "PILLARBOX_TEST_FAKE_URL"
        }

        fn need(&self) -> Need {
            Need::May
        }

        fn preferred_port(&self) -> u16 {
            1
        }

        fn user(&self) -> &'static str {
            "nobody"
        }

        fn stop_signal(&self) -> &'static str {
            "TERM"
        }

        fn find(&self) -> Option<PathBuf> {
            self.home.map(PathBuf::from)
        }

        fn install(&self) -> Result<PathBuf, String> {
            Err("no network".into())
        }

        fn preparation(&self, _: &Site) -> Vec<Command> {
            Vec::new()
        }

        fn command(&self, _: &Site, _: u16) -> Command {
            Command::new("true")
        }

        fn is_ready(&self, _: &Site, _: u16) -> bool {
            false
        }

        fn url(&self, _: u16) -> String {
            String::new()
        }
    }

    #[test]
    fn what_does_not_come_is_named_and_what_is_there_is_left() {
        static THERE: Fake = Fake { name: "there", home: Some("/usr") };
        static MISSING: Fake = Fake { name: "missing", home: None };
        let lacks = Software::gather_for(vec![&THERE, &MISSING]).wait();
        let named: Vec<_> = lacks.iter().map(|lack| (lack.server, lack.why.as_str())).collect();
        assert_eq!(named, [("missing", "no network")]);
    }
}
