//! The user that a server runs as, since most servers refuse to be root.

use std::path::Path;
use std::process::Command;

use super::Server;
use crate::process;

/// Has no rights anywhere and is on every system.
const NOBODY: &str = "nobody";

/// How long a process may live.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Life {
    /// Until somebody ends it; an interrupt of our terminal does not reach it.
    Detached,
    /// Not longer than this program, however that ends, as far as the system can see to it.
    Ours,
}

/// Starts commands as the user of a server.
#[derive(Debug)]
pub(super) struct Runner {
    /// Ourselves if there is none.
    user: Option<User>,
    has_setpriv: bool,
}

#[derive(Debug)]
struct User {
    name: &'static str,
    group_id: String,
}

impl Runner {
    /// The server's user if we are root, and ourselves otherwise.
    pub(super) fn of(server: &dyn Server) -> Result<Self, String> {
        let has_setpriv = process::is_there("setpriv");
        if our_id()? != "0" {
            return Ok(Self { user: None, has_setpriv });
        }
        if !has_setpriv {
            return Err("root starts servers as another user by `setpriv` of util-linux: install it".into());
        }
        let user = [server.user(), NOBODY].into_iter().find_map(User::find);
        let user = user.ok_or_else(|| format!("there is no user `{}` to run it as", server.user()))?;
        Ok(Self { user: Some(user), has_setpriv })
    }

    /// The same command as the server's user. Its process id is that of the command itself.
    pub(super) fn wrap(&self, command: &Command, life: Life, stop_signal: &str) -> Command {
        let program = command.get_program();
        let mut wrapped = if self.has_setpriv {
            let mut setpriv = self.setpriv(life, stop_signal);
            setpriv.arg(program);
            setpriv
        } else {
            Command::new(program)
        };
        // Wherever we are may be closed to that user.
        wrapped.args(command.get_args()).current_dir("/");
        if life == Life::Detached {
            detach(&mut wrapped);
        }
        wrapped
    }

    /// Makes a folder that only the server's user can look into.
    pub(super) fn make_folder(&self, folder: &Path) -> Result<(), String> {
        let mut install = Command::new("install");
        install.args(["-d", "-m", "700"]);
        if let Some(user) = &self.user {
            install.args(["-o", user.name, "-g", &user.group_id]);
        }
        process::finish(install.arg(folder), process::SHORT)
            .map_err(|why| format!("{}: {why}", folder.display()))
    }

    /// Tells whether the server's user can start a program, which may lie in somebody's closed home.
    pub(super) fn can_start(&self, program: &Path) -> bool {
        let mut test = Command::new("test");
        test.arg("-x").arg(program);
        process::succeeds(&mut self.wrap(&test, Life::Ours, "KILL"))
    }

    fn setpriv(&self, life: Life, stop_signal: &str) -> Command {
        let mut setpriv = Command::new("setpriv");
        if let Some(user) = &self.user {
            setpriv.args(["--reuid", user.name, "--regid", &user.group_id, "--init-groups"]);
        }
        if life == Life::Ours {
            setpriv.args(["--pdeathsig", stop_signal]);
        }
        setpriv
    }
}

/// The same command, not outliving the thread that starts it, as far as the system can see to it.
pub(super) fn bound(command: &Command) -> Command {
    let program = command.get_program();
    let mut bound = if process::is_there("setpriv") {
        let mut setpriv = Command::new("setpriv");
        setpriv.args(["--pdeathsig", "KILL"]).arg(program);
        setpriv
    } else {
        Command::new(program)
    };
    bound.args(command.get_args());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => bound.env(name, value),
            None => bound.env_remove(name),
        };
    }
    bound
}

impl User {
    fn find(name: &'static str) -> Option<Self> {
        let group_id = process::answer(Command::new("id").args(["-g", name])).ok()?;
        Some(Self { name, group_id })
    }
}

/// The number of the user who runs this program.
pub(super) fn our_id() -> Result<String, String> {
    process::answer(Command::new("id").arg("-u")).map_err(|why| format!("`id -u`: {why}"))
}

#[cfg(unix)]
fn detach(command: &mut Command) {
    std::os::unix::process::CommandExt::process_group(command, 0);
}

#[cfg(not(unix))]
fn detach(_: &mut Command) {}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(runner: &Runner, life: Life) -> String {
        let mut command = Command::new("postgres");
        command.args(["-p", "1"]);
        let wrapped = runner.wrap(&command, life, "QUIT");
        let words = [wrapped.get_program()].into_iter().chain(wrapped.get_args());
        words.map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn root_becomes_the_servers_user_and_takes_the_server_along_when_it_dies() {
        let user = Some(User { name: "postgres", group_id: "104".into() });
        let runner = Runner { user, has_setpriv: true };
        let become_user = "setpriv --reuid postgres --regid 104 --init-groups";
        assert_eq!(words(&runner, Life::Ours), format!("{become_user} --pdeathsig QUIT postgres -p 1"));
        assert_eq!(words(&runner, Life::Detached), format!("{become_user} postgres -p 1"));
    }

    #[test]
    fn others_stay_themselves() {
        let runner = |has_setpriv| Runner { user: None, has_setpriv };
        assert_eq!(words(&runner(true), Life::Ours), "setpriv --pdeathsig QUIT postgres -p 1");
        assert_eq!(words(&runner(false), Life::Ours), "postgres -p 1");
    }
}
