//! Parses the command line of `cargo xtask`.

use std::path::PathBuf;

use crate::steps::{self, Step};
use pillarbox_servers::{self as servers, Action};

/// Whether uncited requirements are only listed or also fail the command.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Mode {
    Show,
    Check,
}

/// One invocation, parsed.
#[derive(Debug)]
pub(crate) enum Command {
    Help,
    Test {
        steps: Vec<&'static Step>,
    },
    Tidy,
    Requirements {
        mode: Mode,
    },
    Servers {
        action: Action,
    },
    Bench {
        arguments: Vec<String>,
    },
    Advisories {
        /// A checkout of the RustSec advisory database.
        database: PathBuf,
    },
    Sbom {
        package: String,
    },
    /// Internal: the process that cleans up after a run that was killed.
    Guard {
        folder: PathBuf,
    },
}

impl Command {
    /// Parses the arguments after the program name. The error says what is wrong.
    pub(crate) fn parse(arguments: &[String]) -> Result<Self, String> {
        let Some((name, rest)) = arguments.split_first() else { return Ok(Self::Help) };
        match name.as_str() {
            "help" | "--help" | "-h" => Ok(Self::Help),
            servers::GUARD if rest.len() == 1 => Ok(Self::Guard { folder: rest[0].clone().into() }),
            "servers" if rest.first().is_some_and(|verb| verb == "run") => Self::servers(rest),
            "bench" => Ok(Self::Bench { arguments: rest.to_vec() }),
            _ if rest.iter().any(|argument| argument == "--help" || argument == "-h") => Ok(Self::Help),
            "test" => rest.iter().map(|name| steps::find(name)).collect::<Result<_, _>>().map(Self::test),
            "tidy" => no_more(rest).map(|()| Self::Tidy),
            "requirements" => match rest {
                [flag] if flag == "--check" => Ok(Self::Requirements { mode: Mode::Check }),
                _ => no_more(rest).map(|()| Self::Requirements { mode: Mode::Show }),
            },
            "servers" => Self::servers(rest),
            "advisories" => match rest {
                [database] => Ok(Self::Advisories { database: database.into() }),
                _ => Err("advisories needs the folder of a checkout of the RustSec database".to_owned()),
            },
            "sbom" => match rest {
                [package] => Ok(Self::Sbom { package: package.clone() }),
                _ => no_more(rest).map(|()| Self::Sbom { package: "pillarbox-cli".to_owned() }),
            },
            _ => Err(format!("unknown command `{name}`")),
        }
    }

    fn servers(arguments: &[String]) -> Result<Self, String> {
        Action::parse(arguments).map(|action| Self::Servers { action })
    }

    fn test(named: Vec<&'static Step>) -> Self {
        Self::Test { steps: if named.is_empty() { steps::unasked().collect() } else { named } }
    }
}

fn no_more(rest: &[String]) -> Result<(), String> {
    rest.first().map_or(Ok(()), |argument| Err(format!("unexpected argument `{argument}`")))
}

/// The text of `--help`.
pub(crate) fn help() -> String {
    format!(
        "usage: cargo xtask COMMAND

commands:
  test [STEP]...          run everything that must pass, or only the named steps, of which
                          demo, a release build, runs only when it is named:
                          {}
  requirements [--check]  print the requirements that no test cites; with --check,
                          fail if one that must be proved is among them
  tidy                    check what the style asks for and a program can see
  servers up [NAME]...    start throw-away servers for tests, all or the named ones, and
                          print the variables that tell the tests of them:
                          {}
  servers down [NAME]...  end them and remove their data
  servers status          print which are up
  servers run NAME... -- COMMAND
                          run a command with servers that end with it
  bench [ARGUMENT]...     build and run the benchmarks, with these arguments
  bench peers [NAME]... [--quick]
                          build other job queues and measure them beside Pillarbox;
                          rewrites docs/performance
  advisories FOLDER       compare Cargo.lock with a checkout of the RustSec advisory database
  sbom [PACKAGE]          print the bill of materials of a package, by default of the
                          command line, in CycloneDX 1.5 as JSON
  help                    print this",
        steps::names(),
        servers::names()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Command, String> {
        Command::parse(&line.split_whitespace().map(String::from).collect::<Vec<_>>())
    }

    #[test]
    fn nothing_or_a_plea_for_help_prints_help() {
        for line in ["", "help", "--help", "-h", "test --help", "tidy -h"] {
            assert!(matches!(parse(line), Ok(Command::Help)), "{line}");
        }
    }

    #[test]
    fn test_without_names_runs_every_step_in_order_but_the_release_build() {
        let Ok(Command::Test { steps }) = parse("test") else { panic!("not a test run") };
        let names: Vec<_> = steps.iter().map(|step| step.name).collect();
        assert_eq!(names, ["format", "tidy", "requirements", "dependencies", "build", "tests", "documents"]);
    }

    #[test]
    fn test_with_names_runs_these_steps() {
        let Ok(Command::Test { steps }) = parse("test tidy format") else { panic!("not a test run") };
        assert_eq!(steps.iter().map(|step| step.name).collect::<Vec<_>>(), ["tidy", "format"]);
    }

    #[test]
    fn bench_passes_every_argument_through() {
        let Ok(Command::Bench { arguments }) = parse("bench drain --help") else { panic!("not a bench run") };
        assert_eq!(arguments, ["drain", "--help"]);
    }

    #[test]
    fn requirements_takes_one_flag() {
        assert!(matches!(parse("requirements"), Ok(Command::Requirements { mode: Mode::Show })));
        assert!(matches!(parse("requirements --check"), Ok(Command::Requirements { mode: Mode::Check })));
        assert!(parse("requirements --json").is_err());
    }

    #[test]
    fn servers_takes_a_request() {
        assert!(matches!(parse("servers status"), Ok(Command::Servers { action: Action::Status })));
        assert!(matches!(parse("servers up --help"), Ok(Command::Help)));
        assert!(parse("servers").is_err());
    }

    #[test]
    fn what_is_unknown_is_named() {
        assert_eq!(parse("deploy").unwrap_err(), "unknown command `deploy`");
        assert_eq!(parse("tidy all").unwrap_err(), "unexpected argument `all`");
        assert!(parse("test nonsense").unwrap_err().contains("`nonsense`"));
    }
}
