//! Writing, and reading damaged checkpoints; `failing_disk` has failures of each operation.

mod failing_disk;

use std::{
    fs,
    path::{Path, PathBuf},
    sync::Arc,
};

use altgrad_alerts::AlertState;
use altgrad_base::{
    files::{Disk, hex},
    random::{self, Stream},
};
use altgrad_config::{CheckpointSection, TrainSection};
use altgrad_run_folder::folder::CONFIG;
use altgrad_sinks::StateRequest;
use rand::RngExt;
use sha2::{Digest, Sha256};

use super::{
    CheckpointKind, Checkpointer, RunIdentity, Snapshot, StateTensors,
    layout::{self, BEST, CHECKPOINTS, CHECKSUMS, FILES, LAST, METER, MODEL, OPTIMIZER, STATE},
    read::{Checkpoint, Damage},
    state::{CorpusRecord, RunTotals},
};
use crate::{
    device::ComputeDevice,
    quant::{Quantizer, SavedQuantState},
    tensor,
    tensor_file::{Entry, TensorElements, TensorFile},
};

/// A folder in memory where there is one: flushing a thousand files to a disk takes minutes.
fn folder() -> tempfile::TempDir {
    tempfile::tempdir_in("/dev/shm").unwrap_or_else(|_| tempfile::tempdir().unwrap())
}

fn entry(name: &str, values: TensorElements) -> Entry {
    Entry { name: name.into(), shape: vec![2, 3], values }
}

fn weights(step: u64) -> Vec<f32> {
    (0..6).map(|index| index as f32 + step as f32 / 7.0).collect()
}

fn snapshot(step: u64, val_loss: Option<f64>) -> Snapshot {
    let device = ComputeDevice::cpu().tensors;
    let tensors = StateTensors {
        model: vec![entry(
            "transformer.w",
            TensorElements::of(tensor::flat(weights(step), &device)).unwrap(),
        )],
        optimizer: vec![entry(
            "w/m",
            TensorElements::F32(Arc::new(vec![f32::NAN, -0.0, 1e-45, 0.1, 3.0, f32::INFINITY])),
        )],
        meter: vec![
            entry("dead/w", TensorElements::U16(Arc::new(vec![0, 1, 2, 3, 4, 65535]))),
            entry("initial/w", TensorElements::F32(Arc::new(vec![0.5; 6]))),
        ],
        updates: step,
        dead_steps: vec![step],
        initial_seed: None,
        loss_scale: None,
        schedule: Vec::new(),
    };
    let totals = RunTotals { tokens: 8, training_s: 0.1, run_s: 0.2, final_loss: Some(f64::NAN) };
    Snapshot {
        kind: CheckpointKind::Step,
        step,
        val_loss,
        tensors,
        carried: SavedQuantState::default(),
        alerts: AlertState::default(),
        totals,
        resumes: Vec::new(),
    }
}

fn identity() -> RunIdentity {
    RunIdentity {
        host_version: "0".into(),
        device: "cpu".into(),
        threads: 1,
        seed: 1,
        grad_accum: 2,
        optimizer: "adamw".into(),
        data: CorpusRecord { description: "text".into(), fingerprint: "00".into() },
        plugins: Vec::new(),
        config_toml: "[train]\nmax_steps = 9\n".into(),
        train: TrainSection::default(),
    }
}

fn checkpointer(folder: &Path, disk: Disk) -> Checkpointer {
    let section = CheckpointSection { every: 10, keep_last: 2, ..CheckpointSection::default() };
    Checkpointer::new(folder, section, identity(), disk, None)
}

/// Has a checkpoint written; returns the kinds of the events.
fn save(checkpointer: &mut Checkpointer, snapshot: Snapshot) -> Vec<&'static str> {
    let mut events = checkpointer.save(snapshot, StateRequest::default());
    events.extend(checkpointer.wait());
    events.iter().map(|event| event.kind).collect()
}

fn steps(folder: &Path) -> Vec<u64> {
    let listed = layout::list(&folder.join(CHECKPOINTS), CheckpointKind::Step).unwrap();
    listed.into_iter().map(|(step, _)| step).collect()
}

fn target(folder: &Path, link: &str) -> Result<Checkpoint, Damage> {
    Checkpoint::open(&folder.join(CHECKPOINTS).join(link))
}

#[test]
fn what_is_written_is_read_and_the_newest_and_the_best_stay() {
    let folder = folder();
    let mut checkpointer = checkpointer(folder.path(), Disk::default());
    for (step, loss) in [(10, Some(3.0)), (20, Some(2.0)), (30, None), (40, Some(2.5)), (50, Some(f64::NAN))]
    {
        assert!(checkpointer.is_due(step));
        assert_eq!(save(&mut checkpointer, snapshot(step, loss)), ["checkpoint"]);
        assert!(!checkpointer.is_due(step + 9));
    }
    assert_eq!(steps(folder.path()), [20, 40, 50]);
    let (last, best) = (target(folder.path(), LAST).unwrap(), target(folder.path(), BEST).unwrap());
    assert_eq!((last.state.step, best.state.step), (50, 20));
    assert_eq!(last.state.cursors.micro_batch, 100);
    assert!(last.state.totals.final_loss.unwrap().is_nan() && last.state.val_loss.unwrap().is_nan());
    assert_eq!(last.config["train"]["max_steps"].as_integer(), Some(9));
    let read = |name: &str| last.file(name, 1 << 20).unwrap();
    let ((path, model), (_, optimizer), (_, meter)) = (read(MODEL), read(OPTIMIZER), read(METER));
    let f32 = |bytes: &[u8], name: &str| -> Vec<u32> {
        let values = TensorFile::parse(&path, bytes).unwrap().required(name, &[2, 3]).unwrap();
        values.into_iter().map(f32::to_bits).collect()
    };
    assert_eq!(f32(&model, "transformer.w"), weights(50).into_iter().map(f32::to_bits).collect::<Vec<_>>());
    assert_eq!(f32(&optimizer, "w/m")[..2], [f32::NAN.to_bits(), (-0.0f32).to_bits()]);
    let meter = TensorFile::parse(&path, &meter).unwrap();
    assert_eq!(meter.packed_ints("dead/w", &[2, 3]).unwrap().unwrap().part(5..6), [65535]);
    assert_eq!(meter.f32("other", &[2, 3]).unwrap(), None);
    assert!(meter.f32("dead/w", &[2, 3]).is_err() && meter.packed_ints("dead/w", &[6]).is_err());
    assert!(last.file(MODEL, 10).unwrap_err().what.contains("10 are the most that fit"));
}

/// A run that is asked to end is written before its last evaluation, and again if that is the best.
#[test]
fn a_checkpoint_is_written_again_if_its_parameters_turn_out_to_be_the_best() {
    let folder = folder();
    let mut checkpointer = checkpointer(folder.path(), Disk::default());
    save(&mut checkpointer, snapshot(10, Some(3.0)));
    save(&mut checkpointer, snapshot(20, None));
    let lacks = [None, Some(3.0), Some(f64::NAN), Some(2.0)].map(|loss| checkpointer.lacks(20, loss));
    assert_eq!(lacks, [false, false, false, true]);
    assert!(checkpointer.lacks(21, None));
    assert_eq!(save(&mut checkpointer, snapshot(20, Some(2.0))), ["checkpoint"]);
    assert!(!checkpointer.lacks(20, Some(2.0)));
    let (last, best) = (target(folder.path(), LAST).unwrap(), target(folder.path(), BEST).unwrap());
    assert_eq!((last.state.step, best.state.step, best.state.val_loss), (20, 20, Some(2.0)));
    assert_eq!(steps(folder.path()), [10, 20]);
}

/// Far slower than training, which asks for one every step.
#[test]
fn a_slow_disk_leaves_no_checkpoint_out() {
    let folder = folder();
    let slow = Disk::gated(|_, _| {
        std::thread::sleep(std::time::Duration::from_millis(2));
        Ok(())
    });
    let section = CheckpointSection { every: 1, keep_last: 9, ..CheckpointSection::default() };
    let mut checkpointer = Checkpointer::new(folder.path(), section, identity(), slow, None);
    let mut events = Vec::new();
    for step in 1..=6 {
        events.extend(checkpointer.poll());
        assert!(checkpointer.is_due(step) && !checkpointer.is_due(step - 1));
        events.extend(checkpointer.save(snapshot(step, None), StateRequest::default()));
        // The checkpoints that a crash now leaves.
        assert!(steps(folder.path()).last().copied().unwrap_or_default() >= step - 1);
    }
    events.extend(checkpointer.wait());
    assert_eq!(steps(folder.path()), [1, 2, 3, 4, 5, 6]);
    assert_eq!(events.iter().filter(|event| event.kind == "checkpoint").count(), 6);
}

/// A crash loses at most `every` updates, however slow the disk is: training waits before an update if it must.
#[test]
fn a_crash_loses_at_most_every_updates() {
    let folder = folder();
    let slow = Disk::gated(|_, _| {
        std::thread::sleep(std::time::Duration::from_millis(2));
        Ok(())
    });
    let section = CheckpointSection { every: 3, keep_last: 9, ..CheckpointSection::default() };
    let mut checkpointer = Checkpointer::new(folder.path(), section, identity(), slow, None);
    let (mut most, mut written) = (0, 0);
    for step in 0..14 {
        if checkpointer.is_due(step) {
            checkpointer.save(snapshot(step, None), StateRequest::default());
        }
        written += checkpointer.bound_loss(step + 1).len();
        // The update is done: the updates that a crash now loses.
        most = most.max(step + 1 - steps(folder.path()).last().copied().unwrap_or_default());
    }
    assert_eq!((most, written), (3, 4));
}

/// Writes a checkpoint; its folder.
fn written(folder: &Path) -> PathBuf {
    save(&mut checkpointer(folder, Disk::default()), snapshot(10, None));
    folder.join(CHECKPOINTS).join("step-000010")
}

/// Makes the checksums match the files' content.
fn sign(checkpoint: &Path) {
    let line = |name: &&str| {
        format!("{}  {name}\n", hex(&Sha256::digest(fs::read(checkpoint.join(name)).unwrap_or_default())))
    };
    fs::write(checkpoint.join(CHECKSUMS), FILES.iter().map(line).collect::<String>()).unwrap();
}

#[test]
fn every_changed_byte_is_noticed_and_its_file_named() {
    let folder = folder();
    let checkpoint = written(folder.path());
    assert!(Checkpoint::open(&checkpoint).is_ok());
    for name in FILES.into_iter().chain([CHECKSUMS]) {
        let path = checkpoint.join(name);
        let bytes = fs::read(&path).unwrap();
        for at in 0..bytes.len() {
            let mut changed = bytes.clone();
            changed[at] ^= 1 << (at % 8);
            fs::write(&path, &changed).unwrap();
            let opened = Checkpoint::open(&checkpoint);
            // The case of a hex digit has no meaning.
            if name == CHECKSUMS && changed.to_ascii_lowercase() == bytes {
                continue;
            }
            let damage = opened.unwrap_err();
            assert!(name == CHECKSUMS || damage.path == path, "{name} {at}: {damage}");
        }
        for length in [0, 1, bytes.len() / 2, bytes.len() - 2] {
            fs::write(&path, &bytes[..length]).unwrap();
            assert_eq!(Checkpoint::open(&checkpoint).unwrap_err().path, path, "{name} cut to {length}");
        }
        fs::remove_file(&path).unwrap();
        assert_eq!(Checkpoint::open(&checkpoint).unwrap_err().what, "is missing");
        fs::write(&path, &bytes).unwrap();
    }
    assert!(Checkpoint::open(&checkpoint).is_ok());
}

/// Resumes a run of one parameter from a checkpoint and returns whether that succeeds.
fn use_it(checkpoint: &Path) -> bool {
    let Ok(checkpoint) = Checkpoint::open(checkpoint) else { return false };
    let mut used = Quantizer::off().restore(&checkpoint.state.quant, false).is_ok();
    for (name, key) in [(MODEL, "transformer.w"), (OPTIMIZER, "w/m"), (METER, "initial/w")] {
        let Ok((path, bytes)) = checkpoint.file(name, 1 << 12) else { return false };
        let file = TensorFile::parse(&path, &bytes);
        used &= file.is_ok_and(|file| {
            file.required(key, &[2, 3]).is_ok() && file.packed_ints("dead/w", &[2, 3]).is_ok()
        });
    }
    used
}

#[test]
fn bytes_that_nobody_wrote_are_refused_or_used_but_never_panic() {
    let folder = folder();
    let checkpoint = written(folder.path());
    assert!(use_it(&checkpoint));
    let (mut generator, mut refused) = (random::at(7, Stream::Init, 0), 0);
    for round in 0..3000 {
        let name = [MODEL, OPTIMIZER, METER, STATE, CONFIG][round % 5];
        let path = checkpoint.join(name);
        let bytes = fs::read(&path).unwrap();
        let mut changed = bytes.clone();
        for _ in 0..generator.random_range(1..5) {
            let at = generator.random_range(0..changed.len());
            match generator.random_range(0..4) {
                0 => changed[at] = generator.random(),
                1 => changed[at] = b"0123456789[]{}\"=.,-enai\n"[generator.random_range(0..24)],
                2 => changed.truncate(at.max(1)),
                _ => {
                    let piece: Vec<u8> = changed[at..(at + 9).min(changed.len())].to_vec();
                    changed.splice(at..at, piece.repeat(generator.random_range(1..20)));
                }
            }
        }
        fs::write(&path, &changed).unwrap();
        sign(&checkpoint);
        refused += usize::from(!use_it(&checkpoint));
        fs::write(&path, &bytes).unwrap();
    }
    sign(&checkpoint);
    assert!(use_it(&checkpoint) && refused > 1000, "{refused}");
}

/// A checkpoint whose checksums fit, with one value that no run has: the file and the field are named.
#[test]
fn a_value_that_no_run_has_is_refused_and_its_field_named() {
    let folder = folder();
    let checkpoint = written(folder.path());
    let path = checkpoint.join(STATE);
    let sound = fs::read_to_string(&path).unwrap();
    // Empty lists are at the top; others are tables of their own.
    let without_lists = sound.replace("sink = []\n", "").replace("resume = []\n", "");
    let appended = |text: &str| format!("{without_lists}\n{text}\n");
    let replaced = |was: &str, is: &str| {
        assert_eq!(sound.matches(was).count(), 1, "{was} in {sound}");
        sound.replace(was, is)
    };
    let history = |amax: &str| {
        let entry = format!("history = [{{ layer = \"w\", role = \"weight\", amax = [0.5, {amax}] }}]");
        replaced("[quant]\nhistory = []", &format!("[quant]\n{entry}"))
    };
    let scales = |bits: f32| {
        let bits = bits.to_bits();
        let entry = format!(
            "settled = [{{ layer = \"w\", elements = 6, words = [], sums = [], scales = [{bits}] }}]"
        );
        replaced("settled = []", &entry)
    };
    let sink = |keys: &str| appended(&format!("[[sink]]\nname = \"csv\"\n{keys}"));
    let most = u64::MAX;
    let alert = |keys: &str| appended(&format!("[alerts.kinds.nan_loss]\nstreak = 1\nfired = 1\n{keys}"));
    let rows = [
        (replaced("updates = 10", &format!("updates = {most}")), "optimizer.updates"),
        (replaced("updates = 10", "updates = 11"), "optimizer.updates"),
        (replaced("tokens = 8", &format!("tokens = {most}")), "totals.tokens"),
        (replaced("micro_batch = 20", &format!("micro_batch = {most}")), "cursors.micro_batch"),
        (replaced("dead_steps = [10]", &format!("dead_steps = [{most}]")), "meter.dead_steps"),
        (replaced("training_s = 0.1", "training_s = inf"), "totals.training_s"),
        (replaced("run_s = 0.2", "run_s = nan"), "totals.run_s"),
        (replaced("nan_steps = 0", &format!("nan_steps = {most}")), "alerts.nan_steps"),
        (alert("").replace("streak = 1", &format!("streak = {most}")), "alerts.kinds.nan_loss.streak"),
        (alert("").replace("fired = 1", &format!("fired = {most}")), "alerts.kinds.nan_loss.fired"),
        (alert(&format!("fired_at = {{ secs = {most}, nanos = 0 }}")), "alerts.kinds.nan_loss.fired_at"),
        (appended("[alerts.best]\nstep = 5\nloss = nan"), "alerts.best.loss"),
        (appended(&format!("[alerts.best]\nstep = {most}\nloss = 1.0")), "alerts.best.step"),
        (replaced("nan_steps = 0", "nan_steps = 0\nprevious = inf"), "alerts.previous"),
        (replaced("nan_steps = 0", "nan_steps = 0\ndiverged_at = 11"), "alerts.diverged_at"),
        (history("nan"), "quant.history.amax"),
        (history("inf"), "quant.history.amax"),
        (history("1e39"), "quant.history.amax"),
        (history("-0.5"), "quant.history.amax"),
        (scales(f32::NAN), "quant.settled.scales"),
        (scales(f32::INFINITY), "quant.settled.scales"),
        (scales(0.0), "quant.settled.scales"),
        (sink(&format!("rows = {most}\nstate = \"\"")), "sink.rows"),
        (sink(&format!("missing_rows = {most}\nstate = \"\"")), "sink.missing_rows"),
        (sink(&format!("missing_events = {most}\nstate = \"\"")), "sink.missing_events"),
        (sink(&format!("missing_from_step = {most}\nstate = \"\"")), "sink.missing_from_step"),
        (sink("state = \"MS41*\""), "sink.state"),
        (sink("state = \"MS4\""), "sink.state"),
        (sink(""), "sink.state"),
        (appended(&format!("[[resume]]\nstep = {most}\nfrom = \"x\"")), "resume.step"),
    ];
    for (text, field) in rows {
        fs::write(&path, &text).unwrap();
        sign(&checkpoint);
        let damage = Checkpoint::open(&checkpoint).map(drop).unwrap_err();
        assert!(
            damage.path == path && damage.what.contains(&format!("`{field}`")),
            "{field}: {damage}\n{text}"
        );
        // Those who read no more than this file refuse it too.
        assert_eq!(super::read::state_of(&checkpoint).map(drop), Err(damage));
    }
    // Unusual values that occur.
    for text in
        [history("0.0"), sink("rows = 9\nstate = \"MS41\""), sink("missing = \"it is closed\""), alert("")]
    {
        fs::write(&path, &text).unwrap();
        sign(&checkpoint);
        assert!(Checkpoint::open(&checkpoint).is_ok(), "{:?}\n{text}", Checkpoint::open(&checkpoint));
    }
}

/// A state that would be refused is not written as a checkpoint: the fault is reported when it is made, not when
/// it is needed.
#[test]
fn a_value_that_no_run_has_is_not_written() {
    let folder = folder();
    let mut checkpointer = checkpointer(folder.path(), Disk::default());
    let mut wrong = snapshot(10, None);
    wrong.tensors.updates = u64::MAX;
    assert_eq!(save(&mut checkpointer, wrong), ["checkpoint_failed"]);
    let said = checkpointer.fault().unwrap().to_string();
    assert!(said.contains("its state has `optimizer.updates` = 18446744073709551615"), "{said}");
    assert_eq!(
        (steps(folder.path()), save(&mut checkpointer, snapshot(20, None))),
        (vec![], vec!["checkpoint"])
    );
}

#[test]
fn a_length_that_is_not_the_runs_is_not_taken_into_memory() {
    let folder = folder();
    let checkpoint = written(folder.path());
    // A terabyte that takes no space on the disk.
    fs::OpenOptions::new().write(true).open(checkpoint.join(METER)).unwrap().set_len(1 << 40).unwrap();
    let damage = Checkpoint::open(&checkpoint).unwrap_err();
    assert!(
        damage.to_string().starts_with("step-000010/meter.safetensors has 1099511627776 bytes, "),
        "{damage}"
    );
    fs::OpenOptions::new().write(true).open(checkpoint.join(STATE)).unwrap().set_len(1 << 40).unwrap();
    assert!(Checkpoint::open(&checkpoint).unwrap_err().what.contains("are the most"));
}

#[test]
fn scales_of_other_layers_do_not_fit() {
    let settled = crate::quant::SavedWeightStats {
        layer: "w".into(),
        grid: String::new(),
        elements: 1,
        words: vec![1],
        sums: Vec::new(),
        scales: vec![2],
    };
    let carry = SavedQuantState { weights: vec![settled], ..SavedQuantState::default() };
    assert!(Quantizer::off().restore(&carry, false).is_err());
    // A fork in high precision has no use for them.
    assert_eq!(Quantizer::off().restore(&carry, true), Ok(()));
    assert_eq!(Quantizer::off().restore(&SavedQuantState::default(), false), Ok(()));
}
