//! The format with its device kernels: the CPU implementation, and texts made when this library was built.

use altgrad_format_kit::MinifloatGrid;
use altgrad_plugin_api::{
    Config, Descriptor, Format, FormatSpec, KernelOp, KernelTarget, KernelText, PluginError, QuantParams,
    QuantStats,
};

use crate::Cpu;

/// What `build.rs` wrote.
mod kernels {
    include!(concat!(env!("OUT_DIR"), "/kernels.rs"));
}

/// E5M2 on any device.
#[derive(Debug)]
pub struct WithKernels {
    cpu: Cpu,
    limits: kernels::Limits,
}

impl Format for WithKernels {
    fn descriptor() -> Descriptor {
        Cpu::descriptor()
    }

    fn new(config: &Config) -> Result<Self, PluginError> {
        let cpu = Cpu::new(config)?;
        let FormatSpec::Minifloat(spec) = cpu.spec() else {
            return Err(PluginError::config("E5M2 is a minifloat"));
        };
        let grid = MinifloatGrid::new(spec)?;
        let limits = kernels::Limits {
            max_bits: grid.max_finite().to_bits(),
            max_code: grid.max_code().into(),
            nan_code: grid.nan_code().map(u32::from),
            inf_code: grid.has_inf().then(|| u32::from(grid.max_code()) + 1),
        };
        Ok(Self { cpu, limits })
    }

    fn spec(&self) -> FormatSpec {
        self.cpu.spec()
    }

    fn fake_quant(
        &self,
        src: &[f32],
        dst: &mut [f32],
        params: &QuantParams,
        histogram: &mut [u64],
    ) -> Result<QuantStats, PluginError> {
        self.cpu.fake_quant(src, dst, params, histogram)
    }

    fn encode(&self, src: &[f32], dst: &mut [u16], params: &QuantParams) -> Result<(), PluginError> {
        self.cpu.encode(src, dst, params)
    }

    fn decode(&self, codes: &[u16], dst: &mut [f32]) -> Result<(), PluginError> {
        self.cpu.decode(codes, dst)
    }

    fn kernel(&self, op: KernelOp, target: &KernelTarget) -> Result<Option<KernelText>, PluginError> {
        Ok(kernels::kernel(op, target, &self.limits))
    }
}

#[cfg(test)]
mod tests {
    use altgrad_plugin_api::{InfoKind, KernelLanguage, Rounding};

    use super::*;

    fn target(language: KernelLanguage, vector: u32) -> KernelTarget {
        KernelTarget {
            language,
            architecture: 90,
            vector,
            plane: [32, 32],
            max_units_per_cube: 1024,
            max_shared_bytes: 48 << 10,
        }
    }

    fn plugin() -> WithKernels {
        WithKernels::new(&Config::resolve(&WithKernels::descriptor().options, []).unwrap()).unwrap()
    }

    #[test]
    fn there_is_a_text_for_every_operation_and_mode() {
        let plugin = plugin();
        let modes =
            [Rounding::NearestEven, Rounding::NearestAway, Rounding::TowardZero, Rounding::Stochastic];
        for language in [KernelLanguage::CUDA, KernelLanguage::WGSL] {
            for (vector, expected) in [(1, 1), (2, 1), (4, 4), (8, 4)] {
                for op in [KernelOp::FAKE_QUANT, KernelOp::ENCODE] {
                    for mode in modes {
                        let text = plugin.kernel(op.with_rounding(mode), &target(language, vector)).unwrap();
                        assert_eq!(text.unwrap().vector, expected, "{op:?} {mode:?}");
                    }
                }
                for op in [KernelOp::DECODE, KernelOp::HISTOGRAM] {
                    assert!(plugin.kernel(op, &target(language, vector)).unwrap().is_some(), "{op:?}");
                }
            }
        }
    }

    #[test]
    fn what_a_target_cannot_run_is_not_offered() {
        let plugin = plugin();
        let cuda = target(KernelLanguage::CUDA, 4);
        let small = KernelTarget { max_units_per_cube: 128, ..cuda.clone() };
        let old = KernelTarget { architecture: 61, ..cuda.clone() };
        let unknown = KernelTarget { language: KernelLanguage(77), ..cuda.clone() };
        for target in [small, old, unknown] {
            assert_eq!(plugin.kernel(KernelOp::FAKE_QUANT, &target).unwrap(), None);
        }
        assert_eq!(plugin.kernel(KernelOp::FAKE_QUANT_MASK, &cuda).unwrap(), None);
    }

    /// The variants share a text: only constants of the info block differ.
    #[test]
    fn variants_differ_in_constants() {
        let constants = |variant: &str| {
            let given = [("variant".to_string(), altgrad_plugin_api::ConfigValue::Text(variant.into()))];
            let plugin =
                WithKernels::new(&Config::resolve(&WithKernels::descriptor().options, given).unwrap())
                    .unwrap();
            let text =
                plugin.kernel(KernelOp::FAKE_QUANT, &target(KernelLanguage::CUDA, 4)).unwrap().unwrap();
            let of_kind = text.info.iter().filter(|field| field.kind == InfoKind::CONSTANT);
            (text.source.clone(), of_kind.map(|field| f32::from_bits(field.index)).collect::<Vec<_>>())
        };
        let (source, ieee) = constants("ieee");
        assert_eq!(ieee, [57344.0]);
        assert_eq!(constants("fn"), (source.clone(), vec![98304.0]));
        assert_eq!(constants("fin"), (source, vec![114_688.0]));
    }
}
