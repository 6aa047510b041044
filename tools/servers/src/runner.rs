//! Runs servers with the same user and environment, independent of who starts them.

use std::env;
use std::path::Path;
use std::process::Command;

use crate::process;

/// A user without rights that every system has. Most servers refuse to run as root.
const NOBODY: &str = "nobody";
/// The default PATH.
const PATH: &str = "/usr/local/bin:/usr/bin:/bin";

/// The lifetime of a process.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Life {
    /// Until someone stops it. An interrupt of our terminal does not reach it.
    Detached,
    /// At most as long as this program, even if that crashes, if the system supports this.
    Ours,
}

/// Starts commands as the servers' user.
#[derive(Debug)]
pub(super) struct Runner {
    /// The servers' user; `None` for the current user.
    user: Option<User>,
    has_setpriv: bool,
}

#[derive(Debug)]
struct User {
    id: String,
    group_id: String,
}

impl Runner {
    /// Uses a user without rights if we are root, and the current user otherwise.
    pub(super) fn new() -> Result<Self, String> {
        let has_setpriv = process::is_there("setpriv");
        if our_id()? != "0" {
            return Ok(Self { user: None, has_setpriv });
        }
        if !has_setpriv {
            return Err("root starts servers as another user by `setpriv` of util-linux: install it".into());
        }
        Ok(Self { user: Some(User::nobody()?), has_setpriv })
    }

    /// The same command as the servers' user, with only PATH of our environment and with the folder as its
    /// home. The process id is that of the command itself.
    pub(super) fn wrap(&self, command: &Command, life: Life, stop_signal: &str, home: &Path) -> Command {
        let program = command.get_program();
        let mut wrapped = if self.has_setpriv {
            let mut setpriv = self.setpriv(life, stop_signal);
            setpriv.arg(program);
            setpriv
        } else {
            Command::new(program)
        };
        wrapped.env_clear().env("PATH", env::var_os("PATH").unwrap_or_else(|| PATH.into()));
        wrapped.envs([("LC_ALL", "C"), ("TZ", "UTC")]).envs([("HOME", home), ("TMPDIR", home)]);
        // The servers' user may have no access to our working directory.
        wrapped.args(command.get_args()).current_dir("/");
        if life == Life::Detached {
            detach(&mut wrapped);
        }
        wrapped
    }

    /// Creates a folder that only the servers' user can access.
    pub(super) fn make_folder(&self, folder: &Path) -> Result<(), String> {
        let mut install = Command::new("install");
        install.args(["-d", "-m", "700"]);
        if let Some(user) = &self.user {
            install.args(["-o", &user.id, "-g", &user.group_id]);
        }
        process::answer(install.arg(folder)).map(drop).map_err(|why| format!("{}: {why}", folder.display()))
    }

    /// Whether the servers' user can read a file, which may be in a private home folder.
    pub(super) fn can_read(&self, file: &Path) -> bool {
        let mut test = Command::new("test");
        test.arg("-r").arg(file);
        process::succeeds(&mut self.wrap(&test, Life::Ours, "KILL", Path::new("/")))
    }

    fn setpriv(&self, life: Life, stop_signal: &str) -> Command {
        let mut setpriv = Command::new("setpriv");
        if let Some(user) = &self.user {
            setpriv.args(["--reuid", &user.id, "--regid", &user.group_id, "--clear-groups"]);
        }
        if life == Life::Ours {
            setpriv.args(["--pdeathsig", stop_signal]);
        }
        setpriv
    }
}

impl User {
    fn nobody() -> Result<Self, String> {
        let number = |flag| {
            process::answer(Command::new("id").args([flag, NOBODY]))
                .map_err(|why| format!("there is no user `{NOBODY}` to run servers as: {why}"))
        };
        Ok(Self { id: number("-u")?, group_id: number("-g")? })
    }
}

/// The id of the user who runs this program.
pub(super) fn our_id() -> Result<String, String> {
    process::answer(Command::new("id").arg("-u")).map_err(|why| format!("`id -u`: {why}"))
}

/// Puts a process in its own process group, so that an interrupt of our terminal does not reach it.
#[cfg(unix)]
pub(super) fn detach(command: &mut Command) {
    std::os::unix::process::CommandExt::process_group(command, 0);
}

#[cfg(not(unix))]
pub(super) fn detach(_: &mut Command) {}

#[cfg(test)]
mod tests {
    use super::*;

    fn wrapped(runner: &Runner, life: Life) -> Command {
        let mut command = Command::new("postgres");
        command.args(["-p", "1"]);
        runner.wrap(&command, life, "QUIT", Path::new("/data"))
    }

    fn words(runner: &Runner, life: Life) -> String {
        process::line_of(&wrapped(runner, life))
    }

    #[test]
    fn root_becomes_another_user_and_takes_the_server_along_when_it_dies() {
        let user = Some(User { id: "65534".into(), group_id: "65533".into() });
        let runner = Runner { user, has_setpriv: true };
        let become_user = "setpriv --reuid 65534 --regid 65533 --clear-groups";
        assert_eq!(words(&runner, Life::Ours), format!("{become_user} --pdeathsig QUIT postgres -p 1"));
        assert_eq!(words(&runner, Life::Detached), format!("{become_user} postgres -p 1"));
    }

    #[test]
    fn others_stay_themselves() {
        let runner = |has_setpriv| Runner { user: None, has_setpriv };
        assert_eq!(words(&runner(true), Life::Ours), "setpriv --pdeathsig QUIT postgres -p 1");
        assert_eq!(words(&runner(false), Life::Ours), "postgres -p 1");
    }

    #[test]
    fn a_server_does_not_see_the_locale_and_home_of_who_starts_it() {
        let command = wrapped(&Runner { user: None, has_setpriv: false }, Life::Ours);
        let names: Vec<_> = command.get_envs().map(|(name, _)| name.to_string_lossy().into_owned()).collect();
        assert_eq!(names, ["HOME", "LC_ALL", "PATH", "TMPDIR", "TZ"]);
    }
}
