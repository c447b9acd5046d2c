//! The disk: torn files, full ones, two writers.

use std::{fs, process::Command};

use super::{server::Server, *};
use crate::{
    index::Index,
    spool::{Kind, Spool},
};

/// Rows of a spool as text.
fn rows(path: &std::path::Path) -> Vec<String> {
    let mut index = Index::open(path).unwrap();
    index.read_to(u64::MAX).unwrap();
    index.rows.iter().map(|&row| index.text(row).unwrap()).collect()
}

#[test]
#[ignore = "--all: a cut file at any byte"]
fn a_spool_cut_at_any_byte_goes_on_without_loss() {
    let rig = Rig::new("http://127.0.0.1:9").text("mode", "offline");
    let mut sink = rig.open(None);
    log_all(&mut sink, 0..12);
    drop(sink);
    let path = rig.path("wandb/spool.log");
    let whole = fs::read(&path).unwrap();
    for len in (0..=whole.len()).step_by(3) {
        fs::write(&path, &whole[..len]).unwrap();
        // The checkpoint of step 0 is the worst case: everything comes again.
        let mut sink = rig.open(Some(0));
        log_all(&mut sink, 0..14);
        sink.finish(RunOutcome::COMPLETED).unwrap();
        assert_rows(&parsed(&rows(&path)), 14);
    }
}

#[test]
fn a_damaged_line_costs_one_row_and_is_not_taken_for_another() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("spool.log");
    let mut spool = Spool::open(&path).unwrap();
    for step in 0..5 {
        spool.append(Kind::Row, &format!("10 {{\"_step\":{step},\"x\":1.0}}")).unwrap();
    }
    let mut bytes = fs::read(&path).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(&path, bytes).unwrap();
    let mut index = Index::open(&path).unwrap();
    index.read_to(u64::MAX).unwrap();
    assert_eq!(index.rows.iter().map(|row| row.step).collect::<Vec<_>>(), [0, 1, 3, 4]);
    assert_eq!(index.damaged, 1);
}

#[test]
fn two_sinks_of_one_folder_are_refused_and_two_folders_are_not() {
    let rig = Rig::new("http://127.0.0.1:9").text("mode", "offline");
    let _first = rig.open(None);
    let error = rig.try_open(None, &[]).unwrap_err();
    assert!(error.message.contains("in use") && error.hint.contains("`folder`"), "{error}");
    let other = rig.text("folder", "second");
    assert!(other.try_open(None, &[]).is_ok());
}

#[test]
fn a_folder_that_cannot_be_written_refuses_the_start() {
    let rig = Rig::new("http://127.0.0.1:9");
    fs::write(rig.path("wandb"), "a file").unwrap();
    assert!(rig.try_open(None, &[]).unwrap_err().message.contains("wandb"));
    fs::remove_file(rig.path("wandb")).unwrap();
    let error = rig.upload().unwrap_err();
    assert!(error.message.contains("nothing to upload"), "{error}");
}

/// Not a test of its own: logs where files may not grow beyond 16 KiB, and prints the end.
#[test]
fn logs_onto_a_full_disk() {
    let Ok(folder) = std::env::var("ALTGRAD_WANDB_FULL") else { return };
    let mut rig = Rig::new("http://127.0.0.1:9").text("mode", "offline");
    rig.run = folder.into();
    let mut sink = rig.open(None);
    log_all(&mut sink, 0..200);
    let error = sink.finish(RunOutcome::COMPLETED).unwrap_err();
    println!("FINISHED {}", error.message);
}

#[test]
fn a_full_disk_loses_rows_that_are_counted_and_no_others() {
    let rig = Rig::new("http://127.0.0.1:9");
    let script =
        "trap '' XFSZ; ulimit -f 16; exec \"$0\" --exact tests::disk::logs_onto_a_full_disk --nocapture";
    let output = Command::new("bash")
        .args(["-c", script])
        .arg(std::env::current_exe().unwrap())
        .env("ALTGRAD_WANDB_FULL", &rig.run)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    let message =
        said.lines().find_map(|line| line.split_once("FINISHED ")).unwrap_or_else(|| panic!("{said}")).1;
    let kept = rows(&rig.path("wandb/spool.log"));
    assert!(kept.len() > 20, "{}", kept.len());
    let steps: Vec<u64> = parsed(&kept).iter().map(step_of).collect();
    assert!(steps.is_sorted_by(|one, next| one < next), "{steps:?}");
    assert!(message.contains(&format!("{} rows", 200 - kept.len())), "{message}, kept {}", kept.len());
    assert!(message.contains("cannot be written"), "{message}");
    // With free space again, a resumed run sends the lost rows.
    let server = Server::start();
    let rig = Rig { url: server.url.clone(), ..rig };
    let mut sink = rig.open(Some(0));
    log_all(&mut sink, 0..200);
    sink.finish(RunOutcome::COMPLETED).unwrap();
    assert_rows(&parsed(&server.run().history), 200);
}
