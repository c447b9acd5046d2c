//! Kernel launches of a training step: a budget, because on a fast GPU small steps take the time of their launches.

use altgrad_end_to_end::{Bench, gpu_devices, skipped};

use super::missing;

/// Cases, and the most launches of a step of size *tiny* (4 layers) on software Vulkan. Lower a number when the step
/// needs fewer.
const BUDGET: [(&str, u64); 3] = [("fp32", 135), ("E5M2", 244), ("E5M2+metrics", 255)];

#[test]
fn a_step_keeps_its_budget_of_launches() {
    const TEST: &str = "a_step_keeps_its_budget_of_launches";
    for device in gpu_devices() {
        let cases = BUDGET.iter().flat_map(|(case, _)| ["--case", case]);
        let args = ["bench", "--kernels", "--json", "--warmup", "3", "--device", device];
        let outcome = Bench::new().host(&args.into_iter().chain(cases).collect::<Vec<_>>());
        if let Some(why) = missing(&outcome) {
            skipped(TEST, why);
            continue;
        }
        assert_eq!(outcome.code, 0, "{device}: {}", outcome.stderr);
        let report: serde_json::Value = serde_json::from_str(&outcome.stdout).unwrap();
        for ((case, budget), found) in BUDGET.iter().zip(report["cases"].as_array().unwrap()) {
            let launches = found["launches"].as_u64().unwrap();
            let kernels = found["kernels"].as_array().unwrap();
            let by_kernel = kernels.iter().map(|kernel| kernel["launches"].as_u64().unwrap());
            assert_eq!(by_kernel.sum::<u64>(), launches, "{device}: {case}");
            let named = |name: &str| kernels.iter().any(|kernel| kernel["kernel"].as_str() == Some(name));
            assert!(named("Moments"), "{device}: {case}: the engine's own kernel: {kernels:?}");
            // CUDA multiplies bf16, with other kernels.
            assert!(device != "wgpu" || launches <= *budget, "{case}: {launches} launches, budget {budget}");
        }
    }
}
