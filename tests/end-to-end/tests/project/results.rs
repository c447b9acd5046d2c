//! The tables of the pages in results/ are those that results/tables.py makes of the committed records.

use std::process::Command;

use altgrad_end_to_end::skipped;

use super::root;

#[test]
fn tables_of_results_are_those_of_their_records() {
    let mut python = Command::new("python3");
    let python = python.current_dir(root()).args(["-B", "results/tables.py", "--check"]).output();
    let Ok(output) = python else { return skipped("tables_of_results", "no python3") };
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}
