//! Help, version and completions.

use crate::outbox::run;

const COMMANDS: [&[&str]; 45] = [
    &["demo"],
    &["migrate"],
    &["relay"],
    &["dashboard"],
    &["config"],
    &["config", "schema"],
    &["config", "default"],
    &["config", "check"],
    &["write"],
    &["stats"],
    &["events"],
    &["events", "list"],
    &["events", "show"],
    &["events", "why"],
    &["events", "cancel"],
    &["dead"],
    &["dead", "list"],
    &["dead", "show"],
    &["dead", "replay"],
    &["dead", "discard"],
    &["groups"],
    &["groups", "list"],
    &["groups", "pause"],
    &["groups", "unblock"],
    &["nodes"],
    &["nodes", "list"],
    &["queue"],
    &["queue", "enqueue"],
    &["queue", "claim"],
    &["queue", "ack"],
    &["queue", "abandon"],
    &["queue", "fail"],
    &["queue", "extend"],
    &["queue", "reap"],
    &["queue", "work"],
    &["join"],
    &["join", "start"],
    &["join", "attach"],
    &["join", "report"],
    &["join", "wait"],
    &["join", "cancel"],
    &["join", "show"],
    &["join", "list"],
    &["purge"],
    &["completions"],
];

#[test]
fn every_command_says_what_it_does_with_an_example_and_takes_the_common_options() {
    for command in COMMANDS {
        let help = run(&[command, &["--help"]].concat()).done().stdout;
        let what = help.lines().next().unwrap();
        assert!(what.len() > 10 && what.len() < 100, "{command:?}: {what}");
        assert!(help.contains("Example"), "{command:?}");
        assert!(help.contains(&format!("pillarbox {}", command.join(" "))), "{command:?}");
        for option in ["--database-url", "--url", "--layout", "--schema", "--table", "--json"] {
            assert!(help.contains(option), "{command:?} {option}");
        }
    }
}

#[test]
fn the_top_tells_the_exit_codes_and_only_the_commands_that_are_there() {
    let help = run(&["--help"]).done().stdout;
    assert!(help.contains("Exit codes:\n  0  done (an empty list is done)\n  1  failed\n"));
    assert!(help.contains("  5  store unavailable"));
    for absent in ["doctor", "worker", "demo-worker"] {
        assert!(!help.contains(&format!("\n  {absent}")), "{absent}");
    }
    assert!(run(&["--version"]).done().stdout.starts_with("pillarbox "));
}

#[test]
fn help_is_a_command_too() {
    for command in [&["relay"][..], &["queue", "claim"]] {
        let asked = run(&[&["help"], command].concat()).done().stdout;
        assert_eq!(asked, run(&[command, &["--help"]].concat()).done().stdout, "{command:?}");
    }
}

#[test]
fn completions_are_there_for_every_shell() {
    for shell in ["bash", "zsh", "fish", "powershell", "elvish"] {
        let script = run(&["completions", shell]).done().stdout;
        assert!(script.contains("database-url") && script.contains("replay"), "{shell}");
        assert!(!script.contains("demo-worker"), "{shell}");
    }
}
