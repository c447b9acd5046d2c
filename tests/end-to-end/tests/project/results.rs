//! The tables of the pages in results/ are those that results/tables.py makes of the committed records, and those that
//! scripts without common code recount.

use std::process::Command;

use altgrad_end_to_end::skipped;

use super::root;

/// Runs a script of results/ that fails for a number that is not that of the records.
fn agrees(script: &str, arguments: &[&str]) {
    let mut python = Command::new("python3");
    let output = python.current_dir(root().join("results")).args(["-B", script]).args(arguments).output();
    let Ok(output) = output else { return skipped(script, "no python3") };
    let said = [output.stdout, output.stderr].map(|said| String::from_utf8_lossy(&said).into_owned());
    assert!(output.status.success(), "{script}: {}", said.concat());
}

#[test]
fn tables_of_results_are_those_of_their_records() {
    agrees("tables.py", &["--check"]);
}

#[test]
fn recounts_agree_with_the_tables() {
    agrees("onset/recount.py", &[]);
    agrees("parity/recount.py", &[]);
}
