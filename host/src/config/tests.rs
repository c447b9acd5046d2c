//! The run file as its users meet it: what loads, and the exact words of what does not.

#![allow(clippy::unwrap_used)]

use std::path::Path;

use super::load::{decode, load_text};
use super::{
    DatasetChoice, DeviceChoice, PluginRef, Preset, RoundingChoice, RunConfig, ScheduleChoice, Source, load,
};

fn loaded(text: &str, overrides: &[&str]) -> (RunConfig, Source) {
    let overrides: Vec<String> = overrides.iter().map(|&raw| raw.to_owned()).collect();
    load_text(Path::new("conf/x.toml"), text.to_owned(), &overrides).unwrap()
}

/// The refusal as it is printed, without `error: `; every part of it is one line.
fn refusal(text: &str, overrides: &[&str]) -> String {
    let overrides: Vec<String> = overrides.iter().map(|&raw| raw.to_owned()).collect();
    match load_text(Path::new("conf/x.toml"), text.to_owned(), &overrides) {
        Ok(_) => "loads".to_owned(),
        Err(error) => {
            for part in [Some(&error.message), error.place.as_ref(), error.hint.as_ref()].into_iter().flatten() {
                assert!(!part.contains(char::is_control), "not one line: {part:?}");
            }
            assert_eq!(error.fault, crate::diagnostic::Fault::Config);
            error.to_string().trim_start_matches("error: ").to_owned()
        }
    }
}

#[test]
fn probe() {
    for (t, o) in [
        ("[train]\nlr = 1e-3\nlrr = 1", &[][..]),
        ("[trian]\nlr = 1e-3", &[]),
        ("lr = 1", &[]),
        ("[train]\nlr = \"fast\"", &[]),
        ("[train]\nlr = [\n1]", &[]),
        ("[run]\nseed = -5", &[]),
        ("[run]\nseed = 1.5", &[]),
        ("[run]\nseed = 99999999999999999999", &[]),
        ("[run]\nseed = 0xffff_ffff_ffff_ffff", &[]),
        ("[train]\nlr = 1e999", &[]),
        ("[train]\nlr = inf", &[]),
        ("[train]\nlr = nan", &[]),
        ("[train]\nlr = -0.001", &[]),
        ("[train]\nmin_lr = 0.1", &[]),
        ("[train]\nlr = 1e-5", &[]),
        ("[train\nlr = 1", &[]),
        ("[train]\nlr = ", &[]),
        ("[train]\nlr = 1\nlr = 2", &[]),
        ("[train]\nlr 1", &[]),
        ("[run]\nname = \"x", &[]),
        ("[[train]]\nlr = 1", &[]),
        ("train = 3", &[]),
        ("[sink]\nname = \"csv\"", &[]),
        ("[[sink]]\nname = \"csv\"\n[[sink]]\npath = \"a\"", &[]),
        ("[[sink]]\nname = 3", &[]),
        ("[optimizer]\nname = 3", &[]),
        ("[run]\ndevice = \"cuda\"", &[]),
        ("[run]\ndevice = 3", &[]),
        ("[data]\ndataset = \"lawgn\"", &[]),
        ("[data]\ntokenizer = \"gpt2\"", &[]),
        ("[data]\ntokenizer = \"gpt-2\"", &[]),
        ("[data]\ndataset = \"bins:d\"\ntokenizer = \"gpt2\"", &[]),
        ("[model]\npreset = \"gpt-tin\"", &[]),
        ("[model]\nn_head = 3", &[]),
        ("[model]\nn_head = 0", &[]),
        ("[model]\ndropout = 1", &[]),
        ("[model]\nbias = 0", &[]),
        ("[quant]\nexclude = \"a\"", &[]),
        ("[quant]\nexclude = [\"a\", 3]", &[]),
        ("[quant]\nexclude = [\"a\"]", &[]),
        ("[quant]\nactivation = \"E4M3\"", &[]),
        ("[plugins]\nload = [\"a\", { path = \"b\", sha265 = \"\" }]", &[]),
        ("[plugins]\nload = [\"a\", { path = \"b\", sha256 = \"12\" }]", &[]),
        ("[plugins]\nload = [\"a\", { sha256 = \"12\" }]", &[]),
        ("[plugins]\nload = [\"a\", [\"b\"]]", &[]),
        ("[plugins]\nload = [\"a\", 3]", &[]),
        ("[plugins]\ndir = \"\"", &[]),
        ("\u{feff}[train]\nlr = 0", &[]),
        ("\u{feff}lr = 0", &[]),
        ("[train]\r\nlr = 0\r\n", &[]),
        ("train.lr = 0", &[]),
        ("train = { lr = 0 }", &[]),
        ("", &["train.lr"]),
        ("", &["train.lr="]),
        ("", &["=3"]),
        ("", &["lr=3"]),
        ("", &["train..lr=3"]),
        ("", &["train.lrr=3"]),
        ("", &["trian.lr=3"]),
        ("", &["train.lr=fast"]),
        ("", &["train.lr=[1"]),
        ("", &["train.lr=-1"]),
        ("", &["train.lr=1 2"]),
        ("", &["run.name=17"]),
        ("", &["run.name=a/b"]),
        ("", &["run.seed=99999999999999999999"]),
        ("", &["sink.1.name=csv"]),
        ("", &["sink.0.path=a"]),
        ("", &["train.lr.x=1"]),
        ("[[sink]]\nname=\"csv\"", &["sink.2.name=csv"]),
        ("[[sink]]\nname=\"csv\"", &["sink.x=csv"]),
        ("", &["quant.weight=E3M4:ieee", "quant.rounding=stochastc"]),
        ("[train]\nmax_steps = 20", &[]),
        ("[train]\nmax_steps = 50", &[]),
        ("[train]\nmax_steps = 0\nwarmup_steps = 0", &[]),
        ("[train]\ncooldown_steps = 5", &[]),
        ("[train]\nschedule = \"trapezoidal\"\ncooldown_steps = 475", &[]),
        ("[train]\ndecay_steps = 50", &[]),
        ("[run]\nname = \"..\"", &[]),
        ("[run]\nname = \"\"", &[]),
        ("[run]\nname = \"a\\nb\"", &[]),
    ] {
        eprintln!("---- {t:?} {o:?}\n{}", refusal(t, o));
    }
    let (c, s) = loaded("[optimizer]\nbeta1=0.9\nwhen=1979-05-27\nz={a=1}\n[optimizer.sub]\nb=[{x=1},{y=2}]\n[model]\ndropout=0.1\n[[sink]]\nname='csv'\na.b='x'\n[[sink]]\nname='csv'\n[plugins]\ndir='p'\nload=['e5m2',{path='../x/y.so'}]", &[]);
    eprintln!("{}", c.to_toml().unwrap());
    for k in ["optimizer", "optimizer.beta1", "optimizer.sub", "optimizer.sub.b.1.y", "sink", "sink.0", "sink.1", "sink.0.a", "sink.0.a.b", "plugins.load.1"] {
        eprintln!("{k} {} {}", s.locate(k), s.locate_key(k));
    }
}
