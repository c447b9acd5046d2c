//! The live page in a browser: thirty runs at three moments, its delays, which it prints,
//! its requests, and the files of the runs afterwards.

use std::{
    collections::BTreeMap,
    fs,
    io::{BufRead, BufReader, Write},
    path::{Path, PathBuf},
    process::{Child, Stdio},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use altgrad_end_to_end::{Bench, browser, devtools::Browser, skipped};

const FORMATS: [&str; 5] = ["none", "E4M3", "E5M2", "E3M4", "E7M0"];
const RATES: [&str; 2] = ["1e-3", "3e-3"];
const SEEDS: u64 = 3;
const STEPS: u64 = 200;

/// Run by run: its steps so far.
fn moments() -> [Vec<u64>; 3] {
    let runs = FORMATS.len() * RATES.len() * SEEDS as usize;
    let upto = |done: usize, going: usize| -> Vec<u64> {
        (0..done + going).map(|run| if run < done { STEPS } else { STEPS / 3 }).collect()
    };
    [upto(0, 1), upto(runs / 2, 2), upto(runs, 0)]
}

/// Writes a run with so many steps: its losses fall by the format, the rate and the seed.
fn write_run(bench: &Bench, run: usize, steps: u64) -> PathBuf {
    let (format, rate) = (run % FORMATS.len(), run / FORMATS.len() % RATES.len());
    let seed = (run / FORMATS.len() / RATES.len()) as u64 + 1;
    let name = format!("{}_{}_{seed}", FORMATS[format], RATES[rate]);
    let folder = format!("runs/{name}");
    let config = format!(
        "[run]\nname = {name:?}\nseed = {seed}\n[data]\nbatch_size = 8\nblock_size = 64\n[quant]\nweight = {:?}\n\
         [train]\nlr = {}\nmax_steps = {STEPS}\ngrad_accum = 1\n",
        FORMATS[format], RATES[rate]
    );
    bench.write(&format!("{folder}/config.toml"), &config);
    let mut rows = "step,train/loss,val/loss,train/grad_norm\n".to_string();
    let mut last = 0.0;
    for step in 0..steps {
        let noise = ((step * 7 + seed * 13) % 11) as f64 / 200.0;
        last = 2.4 + 0.05 * format as f64 + 3.0 / (1.0 + 0.05 * step as f64 * (1.0 + rate as f64)) + noise;
        let held_out = if step % 20 == 0 { format!("{}", last + 0.05) } else { String::new() };
        rows.push_str(&format!("{step},{last},{held_out},1.0\n"));
    }
    bench.write(&format!("{folder}/metrics.csv"), &rows);
    let now = UNIX_EPOCH.elapsed().unwrap().as_secs();
    let is_done = steps == STEPS;
    let status = serde_json::json!({
        "name": name, "status": if is_done { "completed" } else { "running" }, "steps": steps, "updated_unix_s": now,
        "final_val_loss": is_done.then_some(last), "tokens_per_s": 20_000.0,
    });
    bench.write(&format!("{folder}/run.json"), &status.to_string());
    bench.path(&folder)
}

/// Every file with its bytes and the time it was changed.
fn state(folder: &Path) -> BTreeMap<PathBuf, (Vec<u8>, SystemTime)> {
    let mut found = BTreeMap::new();
    for path in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
        match path.is_dir() {
            true => found.extend(state(&path)),
            false => {
                let changed = fs::metadata(&path).unwrap().modified().unwrap();
                found.insert(path.clone(), (fs::read(&path).unwrap(), changed));
            }
        }
    }
    found
}

/// The server, which ends with its test.
struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The server and its address.
fn served(bench: &Bench) -> (Server, String) {
    let mut server = bench.command(&["watch", "runs"]).stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(server.stdout.take().unwrap()).lines().map_while(Result::ok);
    let address = lines.find(|line| line.starts_with("http://127.0.0.1:")).unwrap();
    (Server(server), address)
}

#[test]
#[ignore = "--all: a browser"]
fn thirty_runs_are_followed_at_three_moments() {
    const NAME: &str = "thirty_runs_are_followed_at_three_moments";
    let Some(chromium) = browser::chromium() else { return skipped(NAME, "no chromium is installed") };
    let bench = Bench::new();
    let kept = std::env::var_os("ALTGRAD_KEEP").map(PathBuf::from);
    for (moment, runs) in (1..).zip(moments()) {
        let folders: Vec<PathBuf> =
            runs.iter().enumerate().map(|(run, steps)| write_run(&bench, run, *steps)).collect();
        let before = state(&bench.path("runs"));
        let (mut server, address) = served(&bench);
        let mut page = Browser::start(&chromium);
        for width in [1280, 390] {
            page.resize(width, 900);
            let first = (0..3).map(|_| page.open(&address)).min().unwrap();
            println!("moment {moment}, {width} px: first view after {:.2} s", first.as_secs_f64());
            let _ = page.wait("document.documentElement.dataset.steps");
            assert_eq!(page.value("document.querySelectorAll('#runs-now tbody tr').length"), runs.len());
            assert_eq!(page.value("document.documentElement.scrollWidth"), width, "wider than the window");
            if let Some(folder) = &kept {
                page.picture(&folder.join(format!("live-{moment}-{width}.png")));
            }
        }
        assert!(state(&bench.path("runs")) == before, "a page reads, and that is all");
        if moment < 3 {
            let shown = page.value("Number(document.documentElement.dataset.steps)").as_u64().unwrap();
            let metrics = folders.last().unwrap().join("metrics.csv");
            let step = runs.last().unwrap();
            let mut metrics = fs::OpenOptions::new().append(true).open(metrics).unwrap();
            metrics.write_all(format!("{step},2.5,,1.0\n").as_bytes()).unwrap();
            let seen = page.wait(&format!("document.documentElement.dataset.steps == {}", shown + 1));
            println!("moment {moment}: a new step is visible after {:.2} s", seen.as_secs_f64());
        }
        assert_eq!(page.complaints(), Vec::<String>::new());
        let foreign: Vec<String> = page
            .requests()
            .into_iter()
            .filter(|asked| !asked.starts_with(&address) && asked != "about:blank")
            .collect();
        assert_eq!(foreign, Vec::<String>::new());
        // Neither the death of the browser nor that of the server changes a run.
        let before = state(&bench.path("runs"));
        drop(page);
        std::thread::sleep(Duration::from_millis(300));
        assert!(server.0.try_wait().unwrap().is_none(), "the server lives on");
        drop(server);
        assert!(state(&bench.path("runs")) == before);
    }
}
