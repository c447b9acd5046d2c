//! The whole of a minifloat plugin but its name.
//!
//! The text option `variant` chooses the domain among those the format offers; empty is the canonical one.
//! Device kernels are texts that the format's crate brings; the domains share them.

use std::marker::PhantomData;

use altgrad_plugin_api::{
    Config, Descriptor, Domain, Format, FormatSpec, KernelOp, KernelTarget, KernelText, OptionSpec,
    PluginError, QuantParams, QuantStats, Scales,
    kernel::table::{self, Limits, Text},
};

use crate::{cpu, round::Rounder};

/// What distinguishes one minifloat plugin from another, besides its bit counts.
pub trait MinifloatName: Send + Sync + 'static {
    /// The name a run file uses: `E5M2`.
    const ID: &'static str;
    /// The crate's version: `env!("CARGO_PKG_VERSION")`.
    const VERSION: &'static str;
    /// One line for `plugins list`.
    const SUMMARY: &'static str;
    /// The domain the bare name means.
    const CANONICAL: Domain;
    /// All domains that make sense, the canonical one included.
    const DOMAINS: &'static [Domain];
    /// Device kernels, one table for all domains: those that `altgrad-kernel-kit` made. Without
    /// any, the host runs the CPU functions on main memory.
    const KERNELS: &'static [Text] = &[];
}

/// A minifloat with `E` exponent and `M` stored significand bits, named by `N`.
#[derive(Debug)]
pub struct MinifloatFormat<N, const E: u32, const M: u32> {
    rounder: Rounder<E, M>,
    /// The value of every code.
    values: Vec<f32>,
    name: PhantomData<N>,
}

/// A domain as run files spell it.
fn domain_name(domain: Domain) -> &'static str {
    domain.name().unwrap_or("unknown")
}

impl<N: MinifloatName, const E: u32, const M: u32> Format for MinifloatFormat<N, E, M> {
    fn descriptor() -> Descriptor {
        let choices: Vec<&str> = [""].into_iter().chain(N::DOMAINS.iter().map(|&d| domain_name(d))).collect();
        let help = format!(
            "Use of the top exponent: ieee (inf and NaN), fn (one NaN code), fin (all finite); empty means {}",
            domain_name(N::CANONICAL)
        );
        Descriptor::format(N::ID, N::VERSION, N::SUMMARY)
            .option(OptionSpec::text("variant", "").choices(&choices).help(&help))
    }

    fn new(config: &Config) -> Result<Self, PluginError> {
        let domain = match config.text("variant")? {
            "" => N::CANONICAL,
            text => *N::DOMAINS
                .iter()
                .find(|&&domain| domain_name(domain) == text)
                .ok_or_else(|| PluginError::config(format!("`variant`: {} has no domain `{text}`", N::ID)))?,
        };
        let rounder = Rounder::new(domain)?;
        let grid = rounder.grid();
        let values = (0..grid.codes()).map(|code| grid.decode(code as u16)).collect();
        Ok(Self { rounder, values, name: PhantomData })
    }

    fn spec(&self) -> FormatSpec {
        FormatSpec::Minifloat(self.rounder.grid().spec())
    }

    fn fake_quant(
        &self,
        src: &[f32],
        dst: &mut [f32],
        params: &QuantParams<'_>,
        histogram: &mut [u64],
    ) -> Result<QuantStats, PluginError> {
        cpu::fake_quant(&self.rounder, src, dst, params, histogram)
    }

    fn encode(&self, src: &[f32], dst: &mut [u16], params: &QuantParams<'_>) -> Result<(), PluginError> {
        cpu::encode(&self.rounder, src, dst, params)
    }

    fn decode(&self, codes: &[u16], dst: &mut [f32], scales: &Scales<'_>) -> Result<(), PluginError> {
        cpu::decode(&self.values, codes, dst, scales)
    }

    fn kernel(&self, op: KernelOp, target: &KernelTarget) -> Result<Option<KernelText>, PluginError> {
        table::find(N::KERNELS, op, target, &Limits::of(&self.rounder.grid()))
    }
}
