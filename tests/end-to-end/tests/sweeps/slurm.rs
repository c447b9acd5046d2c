//! `sweep --launcher slurm` with real `sbatch`: a cluster of one node, made of Debian's packages slurm-wlm and munge in
//! a temporary folder. Where it cannot be started, the tests are skipped by name.

#![cfg(target_os = "linux")]

use std::{
    fs,
    net::TcpListener,
    path::Path,
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use altgrad_end_to_end::{Bench, TINY, assert_same_run, skipped, wait};

/// A cluster of this machine, gone at the end.
struct Cluster {
    daemons: Vec<Child>,
    conf: String,
    folder: tempfile::TempDir,
}

impl Drop for Cluster {
    fn drop(&mut self) {
        // The daemons that were started last first.
        for daemon in self.daemons.iter_mut().rev() {
            let _ = daemon.kill();
            let _ = daemon.wait();
        }
    }
}

impl Cluster {
    /// Starts one, or returns the reason why not.
    fn start() -> Result<Self, String> {
        let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
        let at = folder.path().display().to_string();
        let name = fs::read_to_string("/proc/sys/kernel/hostname").map_err(|error| error.to_string())?;
        let name = name.trim().split('.').next().unwrap_or("localhost").to_string();
        let port = || TcpListener::bind("127.0.0.1:0").and_then(|socket| socket.local_addr());
        let [first, second] = [port(), port()].map(|address| address.map_or(0, |address| address.port()));
        let conf = format!("{at}/slurm.conf");
        let text = format!(
            "ClusterName=altgrad\nSlurmctldHost={name}(127.0.0.1)\nSlurmUser=root\nSlurmdUser=root\n\
             AuthType=auth/munge\nAuthInfo=socket={at}/munge.sock\nCredType=cred/munge\n\
             SlurmctldPort={first}\nSlurmdPort={second}\nSlurmctldPidFile={at}/ctld.pid\n\
             SlurmdPidFile={at}/slurmd.pid\nStateSaveLocation={at}\nSlurmdSpoolDir={at}/spool\n\
             ProctrackType=proctrack/linuxproc\nTaskPlugin=task/none\nSwitchType=switch/none\nMpiDefault=none\n\
             SelectType=select/cons_tres\nSelectTypeParameters=CR_CPU\nReturnToService=2\n\
             NodeName={name} NodeAddr=127.0.0.1 CPUs=2 State=UNKNOWN\n\
             PartitionName=main Nodes={name} Default=YES MaxTime=INFINITE State=UP\n"
        );
        let key: String = format!("{first} {second} {name} ").repeat(64);
        fs::write(&conf, text).and_then(|()| fs::write(format!("{at}/munge.key"), key)).unwrap();
        let private = std::os::unix::fs::PermissionsExt::from_mode(0o600);
        fs::set_permissions(format!("{at}/munge.key"), private).unwrap();
        fs::create_dir(format!("{at}/spool")).unwrap();
        let mut cluster = Self { daemons: Vec::new(), conf: conf.clone(), folder };
        let option = |name: &str, file: &str| format!("--{name}={at}/{file}");
        let munged = [
            "-F".to_string(),
            "--force".to_string(),
            option("socket", "munge.sock"),
            option("key-file", "munge.key"),
            option("pid-file", "munge.pid"),
            option("log-file", "munge.log"),
            option("seed-file", "munge.seed"),
        ];
        cluster.daemon("munged", &munged)?;
        cluster.wait_for("munged", |at| Path::new(at).join("munge.sock").exists())?;
        cluster.daemon("slurmctld", &["-D".to_string(), "-f".to_string(), conf.clone()])?;
        cluster
            .daemon("slurmd", &["-D".to_string(), "-N".to_string(), name, "-f".to_string(), conf.clone()])?;
        let idle = |_: &str| {
            let sinfo =
                Command::new("sinfo").args(["--noheader", "-o", "%T"]).env("SLURM_CONF", &conf).output();
            sinfo.is_ok_and(|output| output.stdout.starts_with(b"idle"))
        };
        cluster.wait_for("slurmd", idle)?;
        Ok(cluster)
    }

    fn daemon(&mut self, program: &str, args: &[String]) -> Result<(), String> {
        let log = fs::File::create(self.folder.path().join(format!("{program}.out"))).unwrap();
        let mut command = Command::new(program);
        command.args(args).env("SLURM_CONF", &self.conf).stdin(Stdio::null());
        command.stdout(log.try_clone().unwrap()).stderr(log);
        let child = command.spawn().map_err(|error| format!("{program} cannot be started ({error})"))?;
        self.daemons.push(child);
        Ok(())
    }

    fn wait_for(&self, program: &str, ready: impl Fn(&str) -> bool) -> Result<(), String> {
        let deadline = Instant::now() + Duration::from_secs(120);
        while !ready(&self.folder.path().display().to_string()) {
            if Instant::now() > deadline {
                let said = fs::read_to_string(self.folder.path().join(format!("{program}.out")));
                let said = said.unwrap_or_default();
                return Err(format!(
                    "{program} does not get ready: {}",
                    said.lines().last().unwrap_or_default()
                ));
            }
            thread::sleep(Duration::from_millis(100));
        }
        Ok(())
    }
}

const MATRIX: &str = "base = \"tiny.toml\"\n[set]\ntrain.max_steps = 200\n[axes]\n\
    quant.weight = [\"E5M2\", \"E4M3\"]\nrun.seed = [1, 2]\n";
const RUNS: [&str; 4] = ["E5M2_s1", "E5M2_s2", "E4M3_s1", "E4M3_s2"];

#[test]
#[ignore = "--all: Slurm"]
fn runs_go_through_sbatch_and_are_those_of_this_machine() {
    let cluster = match Cluster::start() {
        Ok(cluster) => cluster,
        Err(why) => return skipped("runs_go_through_sbatch_and_are_those_of_this_machine", &why),
    };
    let env = [("SLURM_CONF", cluster.conf.as_str())];
    let bench = Bench::new();
    bench.write("tiny.toml", &format!("{TINY}\n[checkpoint]\nevery = 50\n[[sink]]\nname = \"csv\"\n"));
    for name in ["here", "waited", "left", "killed"] {
        bench.write(&format!("{name}.toml"), &format!("name = \"{name}\"\n{MATRIX}"));
    }
    let here = bench.host(&["sweep", "here.toml", "--threads", "1", "--quiet"]);
    assert_eq!(here.code, 0, "{}", here.stderr);
    let same = |name: &str| {
        for run in RUNS {
            assert_same_run(&bench, &format!("runs/here/{run}"), &format!("runs/{name}/{run}"));
        }
    };
    let slurm = ["--launcher", "slurm", "--threads", "1"];

    let waited = bench.host_with(&[&["sweep", "waited.toml", "--jobs", "2"], &slurm[..]].concat(), &env);
    assert_eq!(waited.code, 0, "{}{}", waited.stdout, waited.stderr);
    assert!(waited.stderr.contains("submitted 4 runs as job "), "{}", waited.stderr);
    same("waited");

    // Submitted, left alone, and collected by the same command.
    let left = bench.host_with(&[&["sweep", "left.toml", "--no-wait"], &slurm[..]].concat(), &env);
    assert_eq!(left.code, 0, "{}{}", left.stdout, left.stderr);
    assert!(left.stdout.contains("`squeue -j "), "{}", left.stdout);
    let collected = bench.host_with(&[&["sweep", "left.toml"], &slurm[..]].concat(), &env);
    assert_eq!(collected.code, 0, "{}{}", collected.stdout, collected.stderr);
    same("left");

    // The sweep is killed while its job continues: the next one does not submit running tasks.
    let args = [&["sweep", "killed.toml"], &slurm[..]].concat();
    let mut process = bench.command(&args);
    process.envs(env).stdout(Stdio::null()).stderr(Stdio::null());
    let mut process = process.spawn().unwrap();
    wait(|| bench.path("runs/killed/E5M2_s1/run.json").exists());
    process.kill().unwrap();
    process.wait().unwrap();
    let again = bench.host_with(&args, &env);
    assert_eq!(again.code, 0, "{}{}", again.stdout, again.stderr);
    same("killed");

    // A job that Slurm refuses is reported.
    fs::remove_dir_all(bench.path("runs/left/E5M2_s1")).unwrap();
    let refused =
        bench.host_with(&[&["sweep", "left.toml", "--sbatch=--partition=none"], &slurm[..]].concat(), &env);
    assert_eq!(refused.code, 1, "{}", refused.stdout);
    assert!(refused.stderr.contains("error: sbatch refused the job: "), "{}", refused.stderr);
}
