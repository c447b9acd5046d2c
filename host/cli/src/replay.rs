//! `replay`: parity with a recorded trajectory, as a command anyone can run.

use std::{path::PathBuf, process::ExitCode};

use altgrad_base::{
    diagnostic::{Diagnostic, Fault},
    println,
};
use altgrad_config::DeviceChoice;
use altgrad_engine::debug::{
    recording::Recording,
    replay::{self, Replay, ReplayInputs},
};
use clap::Args;

/// `altgrad-host replay`.
#[derive(Debug, Args)]
pub(super) struct ReplayArgs {
    /// The trajectory log (JSON): config, and lr, loss, grad_norm and ix a step.
    log: PathBuf,
    /// Weights the recording started from (safetensors, nanoGPT's layout).
    #[arg(long, value_name = "FILE")]
    init: PathBuf,
    /// The text the recording was made on; characters are its tokens.
    #[arg(long, value_name = "FILE")]
    text: PathBuf,
    /// Recorded gradients of the first step, before clipping.
    #[arg(long, value_name = "FILE")]
    grads: Option<PathBuf>,
    /// Folder of plugin libraries; by default `plugins` beside the executable.
    #[arg(long, value_name = "DIR")]
    plugins: Option<PathBuf>,
    /// Device: auto, cpu, cuda:N or wgpu.
    #[arg(long, default_value = "cpu")]
    device: DeviceChoice,
    /// Largest allowed |difference| of losses and gradient norms.
    #[arg(long, default_value_t = 1e-3)]
    tolerance: f64,
    /// Largest allowed |difference| of the first loss.
    #[arg(long, default_value_t = 1e-5)]
    first_loss_tolerance: f64,
    /// Largest allowed relative difference of a first gradient, L2 over the tensor.
    #[arg(long, default_value_t = 1e-4)]
    grads_tolerance: f64,
}

pub(super) fn run(args: &ReplayArgs) -> Result<ExitCode, Diagnostic> {
    let recording = Recording::read(&args.log)?;
    let inputs = ReplayInputs {
        init: &args.init,
        text: &args.text,
        plugins: args.plugins.as_deref(),
        device: args.device,
    };
    let replay = Replay::prepare(&recording, &inputs)?;
    let mut worst_grad: Option<(String, f64)> = None;
    let steps = replay.run(|state, grads| {
        let Some(file) = &args.grads else { return Ok(()) };
        let errors = replay::relative_errors(state, grads, file)?;
        let worst = replay::worst(errors.iter().map(|(_, error)| *error));
        // The first NaN, or the first of the largest.
        let name =
            errors.into_iter().find(|(_, error)| error.to_bits() == worst.to_bits()).map(|(name, _)| name);
        worst_grad = Some((name.unwrap_or_default(), worst));
        Ok(())
    })?;
    println!("step  lr        loss       |diff|    grad_norm  |diff|");
    for (index, (step, recorded)) in steps.iter().zip(&recording.steps).enumerate() {
        println!(
            "{index:4}  {:.2e}  {:.6}  {:.2e}  {:.6}  {:.2e}",
            recorded.lr, step.loss, step.loss_error, step.grad_norm, step.grad_norm_error
        );
    }
    let worst = |error: fn(&replay::ReplayedStep) -> f64| replay::worst(steps.iter().map(error));
    let checks = [
        ("first loss", steps.first().map(|step| step.loss_error), args.first_loss_tolerance),
        ("losses", Some(worst(|step| step.loss_error)), args.tolerance),
        ("gradient norms", Some(worst(|step| step.grad_norm_error)), args.tolerance),
        ("learning rates (relative)", Some(worst(|step| step.lr_error)), 1e-12),
        ("first gradients (relative)", worst_grad.as_ref().map(|(_, error)| *error), args.grads_tolerance),
    ];
    let mut within = true;
    for (what, error, tolerance) in checks {
        let Some(error) = error else { continue };
        // NaN is not within anything.
        let fine = error <= tolerance;
        within &= fine;
        println!("{what:28} {error:.2e}  {} {tolerance:.0e}", if fine { "within" } else { "BEYOND" });
    }
    if let Some((name, _)) = worst_grad {
        println!("largest gradient difference in {name}");
    }
    Ok(if within { ExitCode::SUCCESS } else { ExitCode::from(Fault::Run.exit_code()) })
}
