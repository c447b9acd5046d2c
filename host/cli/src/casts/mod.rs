//! `casts apply | prove | show | recipes`: casts, for people and for cross-checks.

mod apply;
pub(crate) mod properties;
mod prove;
mod recipe;
mod show;

use std::process::ExitCode;

use altgrad_base::{diagnostic::Diagnostic, println};
use clap::Subcommand;

use crate::vetting::Trust;

/// `altgrad-host casts`.
#[derive(Debug, Subcommand)]
pub(super) enum CastsCommand {
    /// Applies one cast to a matrix of raw little-endian f32, for comparison with another implementation.
    ///
    /// A cast is a format name, or keys as in TOML with or without braces: format; rounding (nearest-even,
    /// nearest-away, nearest-zero, nearest-up, toward-zero, stochastic); block (none, tensor (default), row, N along
    /// the axis, or a tile [lines, N]); transform = { hadamard = 16, signs (none, te, seed), to (f32, bf16) }; scaling
    /// = { type (f32, e8m0, e4m3, e6m2), rule (max, floor, ceil, even, rceil, rms), pow2, order (encode, decode),
    /// tensor (none, f32), margin, floor, limit (normal, f32), zero (one, smallest, normal), nonfinite (skip, poison),
    /// factor, quantize and dequantize (multiply, divide), amax (dynamic, static), static_amax, deviations }. A key
    /// without effect gets a warning. The page Numerics, section 4.5, defines each key.
    Apply(Box<apply::ApplyArgs>),
    /// Decides the properties of a cast, or of all casts of a recipe, over all tensors of finite elements: each is
    /// proved, refuted by the smallest tensor that was found, or undecided.
    ///
    /// Properties: it never clips; never takes a block that is not zero to zero; is idempotent; is monotone in a block;
    /// is unbiased, if rounding is random; never makes a finite element infinite or NaN; has normal f32 scales; does
    /// not depend on the order of blocks; and gives the same values where f32 subnormals are flushed to zero. The page
    /// Numerics, section 4.6, defines each. A tensor that refutes a property is written as a file, with the command
    /// that applies the cast to it. The format's plugin confirms it. A transform is left out, except for tensors near
    /// the largest f32.
    Prove(prove::ProveArgs),
    /// Shows the cast of each operand of each product of the linear layers.
    Show(show::ShowArgs),
    /// Lists the values of `quant.recipe`, with the first line of each recipe.
    Recipes,
}

impl CastsCommand {
    /// Whose libraries may be loaded: a run file may name any, an applied cast those of `--plugins`.
    pub(super) fn trust(&self) -> Trust {
        match self {
            Self::Show(args) => args.trust.into(),
            Self::Apply(_) | Self::Prove(_) => Trust::Named,
            Self::Recipes => Trust::Known,
        }
    }
}

pub(super) fn run(command: CastsCommand) -> Result<ExitCode, Diagnostic> {
    match command {
        CastsCommand::Apply(args) => apply::run(&args),
        CastsCommand::Prove(args) => prove::run(&args),
        CastsCommand::Show(args) => show::run(&args),
        CastsCommand::Recipes => {
            for (name, text) in altgrad_config::RECIPES {
                let about = text.lines().next().unwrap_or_default().trim_start_matches("# ");
                println!("{name:<24}{about}");
            }
            Ok(ExitCode::SUCCESS)
        }
    }
}
