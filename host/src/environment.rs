//! What `run.json` says of the host and of the libraries a run uses.

use std::collections::BTreeSet;

use altgrad_loader::Registry;
use serde_json::{Value, json};

/// What `run.json` says of the host, and of the libraries the run uses (absolute paths).
#[must_use]
pub fn environment(registry: &Registry, used: &BTreeSet<String>, device: &str) -> Value {
    let plugins: Vec<Value> = registry
        .libraries()
        .iter()
        .filter(|library| used.contains(&library.path.display().to_string()))
        .map(|library| {
            let provides: Vec<String> = library
                .descriptors
                .iter()
                .map(|descriptor| format!("{} {} {}", descriptor.kind, descriptor.id, descriptor.version))
                .collect();
            json!({
                "path": library.path,
                "sha256": library.sha256,
                "provides": provides,
                "api_version": library.build.api_version.as_str(),
                "rustc": library.build.rustc.as_str(),
            })
        })
        .collect();
    json!({
        "host_version": env!("CARGO_PKG_VERSION"),
        "device": device,
        "threads": rayon::current_num_threads(),
        "plugins": plugins,
    })
}
