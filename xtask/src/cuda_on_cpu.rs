//! A CUDA device for tests that is the CPU: a driver without a GPU, and a compiler that makes kernels libraries of this
//! CPU, both in `tests/end-to-end/fixtures`. They compute what the kernels' CUDA text says, tensor cores included.

use std::{env, fs, io, path::Path, process::Command};

use crate::{root, target_dir};

/// The variables with which a host finds this device only, after its libraries are built by g++.
pub fn variables() -> Result<Vec<(&'static str, String)>, io::Error> {
    let (folder, sources) = (target_dir().join("cuda-on-cpu"), root().join("tests/end-to-end/fixtures"));
    // The tensor library looks for a toolkit's headers, the shim has its own.
    fs::create_dir_all(folder.join("toolkit/include"))?;
    let shim = sources.join("cuda");
    build(&sources.join("no_gpu.c"), &folder.join("libcuda.so.1"), &[])?;
    let places = [("SHIM", shim.as_path()), ("LIBRARIES", &folder.join("kernels"))];
    build(&shim.join("nvrtc_on_cpu.c"), &folder.join("libnvrtc.so"), &places)?;
    let before = env::var("LD_LIBRARY_PATH").map_or(String::new(), |before| format!(":{before}"));
    Ok(vec![
        ("LD_LIBRARY_PATH", format!("{}{before}", folder.display())),
        ("CUDA_PATH", folder.join("toolkit").display().to_string()),
        ("ALTGRAD_DEVICES", "cuda:0".into()),
        // A file of compiled kernels would name libraries of this folder, and a real driver may have the same versions.
        ("ALTGRAD_KERNEL_CACHE", "off".into()),
    ])
}

fn build(source: &Path, library: &Path, definitions: &[(&str, &Path)]) -> Result<(), io::Error> {
    let mut compiler = Command::new("g++");
    compiler.args(["-x", "c", "-shared", "-fPIC", "-O1", "-w", "-o"]).args([library, source]);
    for (name, path) in definitions {
        compiler.arg(format!("-D{name}=\"{}\"", path.display()));
    }
    match compiler.status()?.success() {
        true => Ok(()),
        false => Err(io::Error::other(format!("g++ cannot compile {}", source.display()))),
    }
}
