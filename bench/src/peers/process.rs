//! An adapter as a process: it is told `go` and `stop`, and ends with its owner.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, sync_channel};
use std::thread;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::time::Instant;

use super::protocol::Said;

/// Lines read ahead. An adapter that prints faster waits.
const LINES_AHEAD: usize = 256;
/// How long an adapter has to end after `stop`.
const STOPPED: Duration = Duration::from_secs(5);
/// How long the last words of an adapter may be on their way.
const LAST_WORDS: Duration = Duration::from_secs(2);
const LOOK: Duration = Duration::from_millis(5);

/// A running adapter.
pub(crate) struct Adapter {
    child: Child,
    input: ChildStdin,
    lines: mpsc::Receiver<String>,
    /// The line on its standard error that says most: the first error, else the last line. It comes at the end.
    problem: Receiver<String>,
}

impl Adapter {
    /// Starts one: the program with its first arguments, the arguments of the scenario, and environment variables.
    pub(crate) fn start(
        program: &[PathBuf],
        arguments: &[String],
        variables: &[(&str, String)],
    ) -> anyhow::Result<Self> {
        let first = program.first().map(PathBuf::as_path).unwrap_or(Path::new(""));
        let mut command = Command::new(first);
        command
            .args(program.iter().skip(1))
            .args(arguments)
            .envs(variables.iter().map(|(name, value)| (name, value)));
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command
            .spawn()
            .map_err(|error| anyhow::anyhow!("{} does not start: {error}", first.display()))?;
        let (input, output, errors) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let (Some(input), Some(output), Some(errors)) = (input, output, errors) else {
            anyhow::bail!("an adapter without pipes");
        };
        let (sender, lines) = mpsc::channel(LINES_AHEAD);
        // Both threads end with the adapter.
        thread::spawn(move || {
            let read = BufReader::new(output).lines().map_while(Result::ok);
            read.take_while(|line| sender.blocking_send(line.clone()).is_ok()).for_each(drop);
        });
        let (last_words, problem) = sync_channel(1);
        thread::spawn(move || {
            let mut noted = String::new();
            for line in BufReader::new(errors).lines().map_while(Result::ok) {
                if !line.trim().is_empty() && !is_error(&noted) {
                    noted = line;
                }
            }
            // Nobody asks an adapter that did not fail.
            let _ = last_words.send(noted);
        });
        Ok(Self { child, input, lines, problem })
    }

    /// The number of the process.
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Says a word.
    pub(crate) fn say(&mut self, word: &str) -> anyhow::Result<()> {
        writeln!(self.input, "{word}")?;
        Ok(self.input.flush()?)
    }

    /// The next line, if one comes in time.
    pub(crate) async fn hear(&mut self, patience: Duration) -> anyhow::Result<Option<Said>> {
        match tokio::time::timeout(patience, self.lines.recv()).await {
            Ok(Some(line)) => Ok(Some(line.parse()?)),
            Ok(None) => Err(self.ended()),
            Err(_) => Ok(None),
        }
    }

    /// The next line, or an error if none comes in time.
    pub(crate) async fn expect(&mut self, patience: Duration) -> anyhow::Result<Said> {
        self.hear(patience).await?.ok_or_else(|| anyhow::anyhow!("said nothing for {patience:?}"))
    }

    /// Waits until it is ready.
    pub(crate) async fn ready(&mut self, patience: Duration) -> anyhow::Result<()> {
        let said = self.expect(patience).await?;
        anyhow::ensure!(said == Said::Ready, "expected ready, not {said:?}");
        Ok(())
    }

    /// Waits until it has ended by itself.
    pub(crate) async fn end(mut self, patience: Duration) -> anyhow::Result<()> {
        let until = Instant::now() + patience;
        loop {
            match self.child.try_wait()? {
                Some(status) if status.success() => return Ok(()),
                Some(_) => return Err(self.ended()),
                None if Instant::now() >= until => anyhow::bail!("did not end within {patience:?}"),
                None => tokio::time::sleep(LOOK).await,
            }
        }
    }

    /// Tells it to stop. It has nothing to save: one that goes on is killed.
    pub(crate) async fn stop(mut self) {
        if self.say("stop").is_ok() {
            let until = Instant::now() + STOPPED;
            while matches!(self.child.try_wait(), Ok(None)) && Instant::now() < until {
                tokio::time::sleep(LOOK).await;
            }
        }
    }

    fn ended(&self) -> anyhow::Error {
        match self.problem.recv_timeout(LAST_WORDS) {
            Ok(problem) if !problem.is_empty() => anyhow::anyhow!("ended: {problem}"),
            _ => anyhow::anyhow!("ended"),
        }
    }
}

fn is_error(line: &str) -> bool {
    line.contains("Error") || line.contains("error") || line.contains("Exception")
}

impl Drop for Adapter {
    fn drop(&mut self) {
        // Neither fails for a process that has not been waited for.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATIENCE: Duration = Duration::from_secs(60);

    fn shell(script: &str) -> Adapter {
        Adapter::start(&["sh".into(), "-c".into()], &[script.to_owned()], &[]).expect("a shell")
    }

    #[tokio::test]
    async fn an_adapter_is_heard_and_told() {
        let mut adapter = shell("echo ready; read word; echo latency 7; read word; test $word = stop");
        adapter.ready(PATIENCE).await.expect("ready");
        adapter.say("go").expect("go");
        let latency = adapter.expect(PATIENCE).await.expect("a latency");
        assert_eq!(latency, Said::Latency(Duration::from_micros(7)));
        adapter.say("stop").expect("stop");
        adapter.end(PATIENCE).await.expect("the end");
    }

    #[tokio::test]
    async fn an_adapter_that_fails_is_told_by_its_error() {
        let script = "echo note >&2; echo Error: no database >&2; echo at main >&2; exit 1";
        let why = shell(script).end(PATIENCE).await.expect_err("a failure");
        assert_eq!(why.to_string(), "ended: Error: no database");
    }

    #[tokio::test]
    async fn an_adapter_that_goes_on_ends_with_its_owner() {
        let adapter = shell("exec tail -f /dev/null");
        let folder = format!("/proc/{}", adapter.id());
        drop(adapter);
        assert!(!Path::new(&folder).exists());
    }
}
