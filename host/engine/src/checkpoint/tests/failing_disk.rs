//! Writing with failures of each operation, and checkpoints that a crash leaves or that are lost.

use std::{
    fs, io,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
};

use altgrad_base::files::{Disk, Op};
use altgrad_run_folder::{events::EVENTS, folder::STATUS};
use altgrad_sinks::StateRequest;

use super::{
    super::{
        CheckpointKind, Chosen,
        layout::{self, BEST, CHECKPOINTS, LAST},
        read::Checkpoint,
        resume::AUTO,
        retention,
    },
    checkpointer, folder, save, snapshot, steps, target, written,
};

/// A disk that counts, and fails where it is told to: at operation `at`, and after it too if `for_good`.
fn failing(at: usize, for_good: bool) -> (Disk, Arc<AtomicUsize>, Arc<Mutex<Vec<Op>>>) {
    let (count, ops) = (Arc::new(AtomicUsize::new(0)), Arc::new(Mutex::new(Vec::new())));
    let (counted, seen) = (count.clone(), ops.clone());
    let disk = Disk::gated(move |op, _| {
        let number = counted.fetch_add(1, Ordering::SeqCst);
        seen.lock().unwrap().push(op);
        if number == at || for_good && number > at {
            return Err(io::Error::from_raw_os_error(28));
        }
        Ok(())
    });
    (disk, count, ops)
}

#[test]
fn every_operation_may_fail_and_no_good_checkpoint_is_lost() {
    // Two good ones, then a third whose operations fail in turn; it removes the first and moves both links.
    let prepared = || {
        let folder = folder();
        let mut checkpointer = checkpointer(folder.path(), Disk::default());
        save(&mut checkpointer, snapshot(10, Some(2.0)));
        save(&mut checkpointer, snapshot(20, Some(3.0)));
        save(&mut checkpointer, snapshot(30, Some(1.5)));
        folder
    };
    let (disk, count, ops) = failing(usize::MAX, false);
    let folder = prepared();
    assert_eq!(save(&mut checkpointer(folder.path(), disk), snapshot(40, Some(1.0))), ["checkpoint"]);
    let operations = count.load(Ordering::SeqCst);
    for op in
        [Op::CreateFolder, Op::Create, Op::Write, Op::Sync, Op::SyncFolder, Op::Rename, Op::Link, Op::Remove]
    {
        assert!(ops.lock().unwrap().contains(&op), "{op:?} is never done");
    }
    for (at, for_good) in (0..operations).flat_map(|at| [(at, false), (at, true)]) {
        let folder = prepared();
        let place =
            format!("operation {at} of {operations}, {:?}, for good: {for_good}", ops.lock().unwrap()[at]);
        let mut checkpointer = checkpointer(folder.path(), failing(at, for_good).0);
        let told = checkpointer.save(snapshot(40, Some(1.0)), StateRequest::default());
        let told = [told, checkpointer.wait()].concat();
        // It is reported: either there is no checkpoint, or the operation beside it that failed.
        assert!(
            told.len() == 1 && told[0].level != altgrad_plugin_api::AlertLevel::INFO,
            "{place}: {told:?}"
        );
        assert_eq!(told[0].kind == "checkpoint_failed", checkpointer.fault().is_some(), "{place}");
        assert!(told[0].text.contains("No space left"), "{place}: {told:?}");
        // Whatever has a checkpoint's name is one, both links lead to one, and the newest good one is still there.
        for step in steps(folder.path()) {
            let path = folder.path().join(CHECKPOINTS).join(layout::name(CheckpointKind::Step, step));
            assert!(Checkpoint::open(&path).is_ok(), "{place}: {step}");
        }
        assert!(steps(folder.path()).contains(&30), "{place}");
        let (last, best) = (target(folder.path(), LAST).unwrap(), target(folder.path(), BEST).unwrap());
        assert!([30, 40].contains(&last.state.step) && [30, 40].contains(&best.state.step), "{place}");
        // The next one, on a disk that works again, restores the order.
        let mut checkpointer = super::checkpointer(folder.path(), Disk::default());
        assert_eq!(save(&mut checkpointer, snapshot(50, Some(0.5))), ["checkpoint"], "{place}");
        assert_eq!(save(&mut checkpointer, snapshot(60, Some(0.4))), ["checkpoint"], "{place}");
        assert_eq!(steps(folder.path()), [50, 60], "{place}");
        assert_eq!(target(folder.path(), LAST).unwrap().state.step, 60, "{place}");
    }
}

/// A crash is a disk that fails for good.
#[test]
fn a_checkpoint_that_is_written_again_is_never_lost() {
    let prepared = || {
        let folder = folder();
        let mut checkpointer = checkpointer(folder.path(), Disk::default());
        save(&mut checkpointer, snapshot(10, Some(2.0)));
        save(&mut checkpointer, snapshot(20, None));
        folder
    };
    let (disk, count, _) = failing(usize::MAX, false);
    let folder = prepared();
    assert_eq!(save(&mut checkpointer(folder.path(), disk), snapshot(20, Some(1.0))), ["checkpoint"]);
    let operations = count.load(Ordering::SeqCst);
    for (at, for_good) in (0..operations).flat_map(|at| [(at, false), (at, true)]) {
        let folder = prepared();
        let place = format!("operation {at} of {operations}, for good: {for_good}");
        save(&mut checkpointer(folder.path(), failing(at, for_good).0), snapshot(20, Some(1.0)));
        if for_good {
            // What the next start does first.
            retention::restore(&Disk::default(), &folder.path().join(CHECKPOINTS)).unwrap();
        }
        assert_eq!(steps(folder.path()), [10, 20], "{place}");
        assert_eq!(target(folder.path(), LAST).unwrap().state.step, 20, "{place}");
        assert!([10, 20].contains(&target(folder.path(), BEST).unwrap().state.step), "{place}");
    }
}

/// The entry of the folder of checkpoints is as durable as they are.
#[test]
fn the_run_folder_is_flushed_once() {
    let folder = folder();
    let flushed = Arc::new(AtomicUsize::new(0));
    let (counted, run_folder) = (flushed.clone(), folder.path().to_path_buf());
    let disk = Disk::gated(move |op, path| {
        counted.fetch_add(usize::from(op == Op::SyncFolder && path == run_folder), Ordering::SeqCst);
        Ok(())
    });
    let mut checkpointer = checkpointer(folder.path(), disk);
    save(&mut checkpointer, snapshot(10, None));
    save(&mut checkpointer, snapshot(20, None));
    assert_eq!(flushed.load(Ordering::SeqCst), 1);
}

#[test]
#[cfg(unix)]
fn a_run_whose_checkpoints_are_lost_does_not_begin_again() {
    let folder = folder();
    let path = folder.path();
    fs::write(path.join(STATUS), r#"{"status": "failed", "steps": 1, "checkpoint": null}"#).unwrap();
    let refusal = || Chosen::find(AUTO, path).map(drop).err().map(|error| error.message);
    assert_eq!(refusal(), None, "it was killed before its first checkpoint");
    let tell = |place: &str| {
        let event = format!("{{\"step\":30,\"kind\":\"checkpoint\",\"place\":\"checkpoints/{place}\"}}\n");
        fs::write(path.join(EVENTS), event).unwrap();
    };
    tell("anomaly-step-000030");
    assert_eq!(refusal(), None, "it has no other checkpoint yet");
    tell("step-000030");
    let lost = "the run has written checkpoints, but its folder has none";
    assert_eq!(refusal().as_deref(), Some(lost));
    std::os::unix::fs::symlink("nowhere", path.join(CHECKPOINTS)).unwrap();
    assert!(refusal().unwrap().starts_with("the checkpoints of the run cannot be read ("));
    // One that a crash left under the name of a replaced one is found.
    fs::remove_file(path.join(CHECKPOINTS)).unwrap();
    let checkpoint = written(path);
    fs::rename(&checkpoint, path.join(CHECKPOINTS).join(".replaced-step-000010")).unwrap();
    assert_eq!(refusal(), None);
    assert_eq!(steps(path), [10]);
}
