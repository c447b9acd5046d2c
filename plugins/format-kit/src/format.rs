//! The whole of a minifloat plugin but its name.
//!
//! The text option `variant` chooses the domain among those the format offers; empty is the canonical one.
//! Device kernels are texts that all minifloats share: a grid's numbers are constants of a launch.

use std::marker::PhantomData;

use altgrad_plugin_api::{
    Config, Descriptor, Domain, Format, FormatSpec, KernelOp, KernelTarget, KernelText, OptionSpec,
    PluginError, QuantParams, QuantStats, RStr, Scales,
    kernel::table::{self, GridConstants},
};

use crate::{cpu, kernel_texts, round::Rounder};

/// The properties of a minifloat plugin besides its bit counts.
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
const fn domain_name(domain: Domain) -> &'static str {
    match domain.name() {
        Some(name) => name,
        None => "unknown",
    }
}

/// The choices of `variant`: empty, then the domains, then unused entries.
const fn variants(domains: &[Domain]) -> [RStr<'static>; 4] {
    let mut names = [RStr::from_str(""); 4];
    let mut at = 0;
    while at < domains.len() {
        names[at + 1] = RStr::from_str(domain_name(domains[at]));
        at += 1;
    }
    names
}

/// The meaning of the option `variant`, and of an empty one.
const fn help(canonical: Domain) -> &'static str {
    macro_rules! help {
        ($canonical:literal) => {
            concat!(
                "Use of the top exponent: ieee (inf and NaN), fn (one NaN code), fin (all finite); empty means ",
                $canonical
            )
        };
    }
    match canonical {
        Domain::IEEE => help!("ieee"),
        Domain::FN => help!("fn"),
        _ => help!("fin"),
    }
}

impl<N: MinifloatName, const E: u32, const M: u32> MinifloatFormat<N, E, M> {
    const VARIANTS: [RStr<'static>; 4] = variants(N::DOMAINS);
}

impl<N: MinifloatName, const E: u32, const M: u32> Format for MinifloatFormat<N, E, M> {
    const DESCRIPTOR: Descriptor =
        Descriptor::format(N::ID, N::VERSION, N::SUMMARY).options(&[OptionSpec::text("variant", "")
            .choices(Self::VARIANTS.split_at(1 + N::DOMAINS.len()).0)
            .help(help(N::CANONICAL))]);

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
        let constants = GridConstants::of(&self.rounder.grid());
        constants.map_or(Ok(None), |constants| table::find(kernel_texts::TEXTS, op, target, &constants))
    }
}
