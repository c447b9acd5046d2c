//! The rates of matrix products that data sheets of GPUs give: dense, with f32 sums.
//!
//! A GPU is known by the name that its driver reports. Other names have no rates, such as those of parts of a GPU
//! (MIG).

use serde::Serialize;

/// Rates of a GPU at its boost clock, in units of 10^9 multiplications and additions per second.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct SheetRates {
    /// f32, without tensor cores.
    pub f32_gflop_s: f64,
    /// bf16 on tensor cores; half of a rate that is given with sparsity.
    pub bf16_gflop_s: f64,
}

/// Names as drivers report them without the vendor, and the rates of f32 and bf16 in units of 10^12 per second.
///
/// Sources, all of NVIDIA: *H100 Tensor Core GPU Architecture* (2022) for SXM5 and PCIe; the data sheets of H100 NVL
/// and H200; *A100 Tensor Core GPU* (2021), whose forms have one rate; the data sheets of A10, A40, L4 and L40S; *Ada
/// GPU Architecture* (2022) for RTX 4090 and *Ampere GA102 GPU Architecture* (2021) for RTX 3090, with f32 sums.
const SHEETS: [(&[&str], [f64; 2]); 10] = [
    (&["H100 80GB HBM3", "H200"], [66.9, 989.4]),
    (&["H100 PCIe"], [51.2, 756.0]),
    (&["H100 NVL", "H200 NVL"], [60.0, 835.5]),
    (&["A100-SXM4-40GB", "A100-SXM4-80GB", "A100-PCIE-40GB", "A100 80GB PCIe"], [19.5, 312.0]),
    (&["A10"], [31.2, 125.0]),
    (&["A40"], [37.4, 149.7]),
    (&["L4"], [30.3, 121.0]),
    (&["L40S"], [91.6, 362.0]),
    (&["GeForce RTX 4090"], [82.6, 165.2]),
    (&["GeForce RTX 3090"], [35.6, 71.0]),
];

impl SheetRates {
    /// Those of a GPU by the name that its driver reports; `None` if it is not in the table.
    #[must_use]
    pub fn of(name: &str) -> Option<Self> {
        let name = name.strip_prefix("NVIDIA ").unwrap_or(name);
        let (_, [f32, bf16]) = SHEETS.iter().find(|(names, _)| names.contains(&name))?;
        Some(Self { f32_gflop_s: f32 * 1e3, bf16_gflop_s: bf16 * 1e3 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gpus_are_known_by_their_whole_names() {
        let bf16 = |name: &str| SheetRates::of(name).map(|rates| rates.bf16_gflop_s);
        assert_eq!(bf16("NVIDIA H100 80GB HBM3"), Some(989_400.0));
        assert_eq!(bf16("H100 PCIe"), Some(756_000.0));
        for other in ["", "none", "NVIDIA H100 80GB HBM3 MIG 1g.10gb", "NVIDIA L40", "llvmpipe (LLVM 15.0.7)"]
        {
            assert_eq!(bf16(other), None, "{other}");
        }
        for (index, (names, [f32, bf16])) in SHEETS.iter().enumerate() {
            assert!(f32 < bf16, "{names:?}");
            let others = SHEETS.iter().skip(index + 1).flat_map(|(names, _)| *names);
            assert!(others.into_iter().all(|other| !names.contains(other)), "{names:?} twice");
        }
    }
}
