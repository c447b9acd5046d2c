//! CUDA text on the CPU: g++ and a shim header, in a process of its own.
//!
//! Compiled with contraction to fma allowed where the CPU has it, because a GPU's compiler contracts too: outputs
//! must not depend on it.

use std::{
    collections::HashMap,
    fmt::Write as _,
    fs,
    io::Write as _,
    path::PathBuf,
    process::{Command, Stdio},
};

use altgrad_plugin_api::KernelText;
use tempfile::TempDir;

use crate::{Runner, info};

/// The folder of the shim.
macro_rules! shim {
    () => {
        concat!(env!("CARGO_MANIFEST_DIR"), "/../end-to-end/fixtures/cuda")
    };
}

/// Some texts, as one program.
pub struct CudaOnCpu {
    program: PathBuf,
    /// Place of each text in the program.
    kernels: HashMap<String, usize>,
    // Holds the program until it is dropped.
    _dir: TempDir,
}

/// Checks that g++ is available; the error is the reason of a skipped test.
///
/// # Errors
/// The reason.
pub fn available() -> Result<(), String> {
    let version = Command::new("g++").arg("--version").output();
    version.map(|_| ()).map_err(|e| format!("g++ cannot be started: {e}"))
}

/// True if this CPU has fma.
#[must_use]
pub fn contraction() -> bool {
    #[cfg(target_arch = "x86_64")]
    return std::arch::is_x86_feature_detected!("fma");
    #[cfg(not(target_arch = "x86_64"))]
    return false;
}

impl CudaOnCpu {
    /// Compiles some texts; `contract` allows g++ to use fma.
    #[must_use]
    pub fn of(texts: Vec<KernelText>, contract: bool) -> Self {
        let (mut code, mut table) = (String::from("#include \"serve.h\"\n"), String::new());
        let mut kernels = HashMap::new();
        for (number, text) in texts.into_iter().enumerate() {
            writeln!(code, "namespace k{number} {{\n{}\n}}", text.source).unwrap();
            let entry = &text.entry;
            writeln!(table, "[](shim::Job &job) {{ shim::launch(k{number}::{entry}, job); }},").unwrap();
            kernels.insert(text.source.to_string(), number);
        }
        writeln!(code, "int main() {{ return shim::serve({{\n{table}}}); }}").unwrap();
        let dir = tempfile::tempdir().unwrap();
        let (file, program) = (dir.path().join("kernels.cpp"), dir.path().join("kernels"));
        fs::write(&file, code).unwrap();
        let edited =
            Command::new("sed").args(["-E", "-i", "-f", concat!(shim!(), "/text.sed")]).arg(&file).status();
        assert!(edited.unwrap().success());
        let contraction =
            if contract { ["-ffp-contract=fast", "-mfma"] } else { ["-ffp-contract=off", "-mno-fma"] };
        let output = Command::new("g++")
            .args(["-std=c++17", "-O1", "-fno-strict-aliasing", "-w"])
            .args(contraction)
            .arg(concat!("-I", shim!()))
            .args([file.as_os_str(), "-o".as_ref(), program.as_os_str()])
            .output()
            .unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        Self { program, kernels, _dir: dir }
    }
}

impl Runner for CudaOnCpu {
    fn run(&self, kernel: &KernelText, cubes: u32, scalars: &[u32], buffers: Vec<Vec<u32>>) -> Vec<Vec<u32>> {
        let info = info(kernel, scalars, &buffers);
        let number = self.kernels[kernel.source.as_str()] as u32;
        let mut input = vec![number, cubes, kernel.cube_dim[0], buffers.len() as u32, 2 * info.len() as u32];
        input.extend(info.iter().flat_map(|&word| [word as u32, (word >> 32) as u32]));
        for buffer in &buffers {
            input.push(buffer.len() as u32);
            input.extend(buffer);
        }
        let input: Vec<u8> = input.into_iter().flat_map(u32::to_le_bytes).collect();
        let mut child =
            Command::new(&self.program).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        // The program reads everything before it writes anything.
        child.stdin.take().unwrap().write_all(&input).unwrap();
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success(), "kernel {}: {}", kernel.entry, output.status);
        let mut words = output.stdout.as_chunks::<4>().0.iter().map(|&bytes| u32::from_le_bytes(bytes));
        buffers.iter().map(|buffer| words.by_ref().take(buffer.len()).collect()).collect()
    }
}
