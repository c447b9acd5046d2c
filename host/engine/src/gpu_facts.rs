//! The properties of a GPU that decide its arithmetic, for `run.json`: its name, the versions of driver and compiler,
//! and the settings by which the tensor library chooses kernels.

use std::fs;

use altgrad_run_folder::record::Gpu;
use burn::{backend::DispatchDevice, runtime_config, tensor::Device};
use burn_cubecl::kernel::matmul::MatmulStrategy;
use serde_json::json;

/// The properties of a device; `None` on the CPU. Versions are those of libraries that the process has loaded: call it
/// after the first kernel.
pub(crate) fn of(device: &Device) -> Option<Gpu> {
    let DispatchDevice::Cube(cube) = device.as_dispatch() else { return None };
    let client = cube.client();
    let identity = &client.properties().identity;
    let is_cuda = identity.fingerprint.starts_with("ptx_");
    let maps = fs::read_to_string("/proc/self/maps").unwrap_or_default();
    let version = |names: &[&str]| is_cuda.then(|| mapped_version(&maps, names)).flatten();
    let config = runtime_config();
    let fusion = config.fusion();
    Some(Gpu {
        name: identity.name.clone(),
        target: identity.fingerprint.clone(),
        driver: version(&["libcuda.so."]),
        nvrtc: version(&["libnvrtc.so.", "libnvrtc-builtins.so."]),
        fusion: json!({
            "beam_search": fusion.beam_search,
            "max_graph_size": fusion.max_graph_size,
            "growth_patience": fusion.growth_patience,
        }),
        // The only other strategy of this build.
        autotune: !matches!(MatmulStrategy::default(), MatmulStrategy::Cube),
        ..Gpu::default()
    })
}

/// The longest version in the name of a mapped library, such as 580.95.05 of `libcuda.so.580.95.05`.
fn mapped_version(maps: &str, names: &[&str]) -> Option<String> {
    let files = maps.lines().filter_map(|line| line.rsplit('/').next());
    let versions = files.filter_map(|file| names.iter().find_map(|name| file.strip_prefix(name)));
    versions.max_by_key(|version| version.len()).map(ToString::to_string)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_in_the_names_of_mapped_libraries() {
        let maps = "7f00-7f01 r-xp 0 08:01 1 /usr/lib/libcuda.so.580.95.05\n\
                    7f02-7f03 r-xp 0 08:01 2 /opt/a b/libnvrtc.so.13\n\
                    7f04-7f05 r--p 0 08:01 3 /opt/a b/libnvrtc-builtins.so.13.0\n7f06-7f07 rw-p 0 00:00 0 [heap]\n";
        let version = |names: &[&str]| mapped_version(maps, names);
        assert_eq!(version(&["libcuda.so."]).as_deref(), Some("580.95.05"));
        assert_eq!(version(&["libnvrtc.so.", "libnvrtc-builtins.so."]).as_deref(), Some("13.0"));
        assert_eq!(version(&["libcudart.so."]), None);
    }
}
