//! `replay`: parity with a recorded trajectory, as a command anyone can run.

use std::{path::PathBuf, process::ExitCode};

use altgrad_base::{
    diagnostic::{Diagnostic, Fault},
    println,
};
use altgrad_config::DeviceChoice;
use altgrad_engine::{
    debug::{
        recording::{RecordedStep, Recording},
        replay::{self, Replay, ReplayInputs, Replayed, ReplayedStep, TensorError},
    },
    model::weights,
};
use clap::Args;

/// `altgrad-host replay`.
#[derive(Debug, Args)]
pub(super) struct ReplayArgs {
    /// The trajectory log (JSON): config, and lr, loss, grad_norm and ix per step.
    log: PathBuf,
    /// Initial weights of the recording (safetensors, nanoGPT's layout).
    #[arg(long, value_name = "FILE")]
    init: PathBuf,
    /// Text of the recording; its tokens are characters.
    #[arg(long, value_name = "FILE")]
    text: PathBuf,
    /// Recorded gradients of the first step, before clipping.
    #[arg(long, value_name = "FILE")]
    grads: Option<PathBuf>,
    /// Recorded weights after the last update, for comparison.
    #[arg(long, value_name = "FILE")]
    weights_after: Option<PathBuf>,
    /// Writes the weights after the last update (safetensors, nanoGPT's layout).
    #[arg(long, value_name = "FILE")]
    weights_out: Option<PathBuf>,
    /// Folder of plugin libraries; by default `plugins` beside the executable.
    #[arg(long, value_name = "DIR")]
    plugins: Option<PathBuf>,
    /// Device: auto, cpu, cuda:N or wgpu.
    #[arg(long, default_value = "cpu")]
    device: DeviceChoice,
    /// Largest allowed |difference| of losses and gradient norms. Over 21 steps of nanoGPT in f32 on the
    /// CPU, losses differ by up to 4.8e-7 and gradient norms by 6.1e-7. With one other setting, such as clipping at 0.5
    /// instead of 1, they differ by 1.6e-5.
    #[arg(long, value_name = "D", default_value = "3e-6")]
    tolerance: f64,
    /// Largest allowed |difference| of the first loss.
    #[arg(long, value_name = "D", default_value = "3e-6")]
    first_loss_tolerance: f64,
    /// Largest allowed relative difference of a first gradient, L2 over the tensor.
    #[arg(long, value_name = "D", default_value = "1e-5")]
    grads_tolerance: f64,
    /// Largest allowed relative difference of a weight after the last update, L2 over the tensor.
    #[arg(long, value_name = "D", default_value = "5e-6")]
    weights_tolerance: f64,
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
    let mut grads = None;
    let Replayed { steps, state } = replay.run(|layout, values| {
        let file = args.grads.as_deref();
        grads = file.map(|file| replay::tensor_errors(layout, values, file)).transpose()?;
        Ok(())
    })?;
    let (layout, values) = (&state.params.layout, state.weights()?);
    let compared = |file: &PathBuf| replay::tensor_errors(layout, &values, file);
    let weights = args.weights_after.as_ref().map(compared).transpose()?;
    if let Some(file) = &args.weights_out {
        weights::write(file, layout, values, None)?;
    }
    print_steps(&steps, &recording.steps);
    if let Some(weights) = &weights {
        print_weights(weights);
    }
    let worst = |error: fn(&ReplayedStep) -> f64| replay::worst(steps.iter().map(error));
    let worst_tensor = |errors: &Option<Vec<TensorError>>| {
        errors.as_ref().map(|errors| replay::worst(errors.iter().map(|error| error.relative)))
    };
    let checks = [
        ("first loss", steps.first().map(|step| step.loss_error), args.first_loss_tolerance),
        ("losses", Some(worst(|step| step.loss_error)), args.tolerance),
        ("gradient norms", Some(worst(|step| step.grad_norm_error)), args.tolerance),
        ("learning rates (relative)", Some(worst(|step| step.lr_error)), 1e-12),
        ("first gradients (relative)", worst_tensor(&grads), args.grads_tolerance),
        ("weights after (relative)", worst_tensor(&weights), args.weights_tolerance),
    ];
    let mut within = true;
    for (what, error, tolerance) in checks {
        let Some(error) = error else { continue };
        // NaN is not within anything.
        let fine = error <= tolerance;
        within &= fine;
        println!("{what:28} {error:.2e}  {} {tolerance:e}", if fine { "within" } else { "BEYOND" });
    }
    if let Some(name) = grads.as_deref().and_then(farthest) {
        println!("largest gradient difference in {name}");
    }
    Ok(if within { ExitCode::SUCCESS } else { ExitCode::from(Fault::Run.exit_code()) })
}

fn print_steps(steps: &[ReplayedStep], recorded: &[RecordedStep]) {
    println!("step  lr        loss       |diff|    grad_norm  |diff|");
    for (index, (step, recorded)) in steps.iter().zip(recorded).enumerate() {
        println!(
            "{index:4}  {:.2e}  {:.6}  {:.2e}  {:.6}  {:.2e}",
            recorded.lr, step.loss, step.loss_error, step.grad_norm, step.grad_norm_error
        );
    }
}

fn print_weights(errors: &[TensorError]) {
    println!("weights after the last update: relative difference, largest |diff|");
    for TensorError { name, relative, absolute } in errors {
        println!("  {name:34}  {relative:.2e}  {absolute:.2e}");
    }
}

/// The first tensor with a NaN, or the first of those with the largest relative difference.
fn farthest(errors: &[TensorError]) -> Option<&str> {
    let worst = replay::worst(errors.iter().map(|error| error.relative)).to_bits();
    errors.iter().find(|error| error.relative.to_bits() == worst).map(|error| error.name.as_str())
}
