//! The program as a user calls it.

use std::process::{Command, Output};

fn xtask(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_xtask")).args(arguments).output().expect("xtask starts")
}

#[test]
fn help_is_printed_and_is_a_success() {
    for arguments in [&[][..], &["--help"][..], &["help"][..]] {
        let output = xtask(arguments);
        assert_eq!(output.status.code(), Some(0));
        assert!(String::from_utf8_lossy(&output.stdout).starts_with("usage: cargo xtask COMMAND"));
    }
}

#[test]
fn an_unknown_command_is_wrong_usage() {
    let output = xtask(&["deploy"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(output.stdout.is_empty());
    assert!(String::from_utf8_lossy(&output.stderr).starts_with("unknown command `deploy`"));
}

#[test]
fn requirements_are_shown_family_by_family() {
    let output = xtask(&["requirements"]);
    assert_eq!(output.status.code(), Some(0));
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    for family in ["EVT: ", "RLY: ", "OBX: ", "PBX: "] {
        assert!(text.lines().any(|line| line.starts_with(family)), "{text}");
    }
}
