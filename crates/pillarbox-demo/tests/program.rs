//! The demo as a program of its own: what `cargo run --release` starts.

use std::process::{Command, Output};

fn demo(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_pillarbox-demo")).args(arguments).output().expect("the program starts")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// PBX-024
#[test]
fn it_runs_with_and_without_the_name_of_its_command() {
    for arguments in [&["--events", "50"][..], &["demo", "--events", "50"][..]] {
        let output = demo(arguments);
        assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
        let told = text(&output.stdout);
        assert!(told.lines().any(|line| line == "lost 0"), "{told}");
    }
}

#[test]
fn programs_get_one_json_document() {
    let output = demo(&["--events", "50", "--json"]);
    let told: serde_json::Value = serde_json::from_slice(&output.stdout).expect("a JSON document");
    assert_eq!(told["lost"], 0, "{told:#}");
    assert!(output.stderr.is_empty(), "{}", text(&output.stderr));
}

#[test]
fn commands_of_the_whole_command_line_are_told_where_that_is() {
    for command in ["stats", "migrate"] {
        let output = demo(&[command]);
        assert_eq!(output.status.code(), Some(2));
        assert!(text(&output.stderr).contains("cargo run --release -p pillarbox-cli"), "{output:?}");
    }
    let output = demo(&["--nonsense"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("--nonsense"), "{output:?}");
}
