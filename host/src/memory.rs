//! Whether a run fits into the machine's memory: asked before anything large is made.
//!
//! Without this an impossible size ends the process with "memory allocation failed", which names no key.

use std::fs;

use crate::{config::RunConfig, diagnostic::Diagnostic, model::GptShape};

/// Value, gradient and two optimizer states a parameter, 4 bytes each; what metrics remember by default, 10: the
/// initial value, two codes, steps dead; and what a checkpoint that is being written holds of all that, at most 18: initial
/// values never change.
const BYTES_A_PARAMETER: u128 = 44;
/// Activations kept for the backward pass, by the plain operations, in units of the residual stream: measured roughly.
const STREAMS_A_BLOCK: u128 = 30;

/// Refuses a run that needs more memory than the machine has. Says nothing where that cannot be known.
///
/// # Errors
/// What it needs, what there is, and what to make smaller.
pub fn check(config: &RunConfig, shape: &GptShape) -> Result<(), Diagnostic> {
    let Some(available) = available() else { return Ok(()) };
    let needed = estimate(shape, config.data.batch_size);
    if needed <= available {
        return Ok(());
    }
    let gib = |bytes: u128| bytes as f64 / f64::from(1 << 30);
    let message =
        format!("the run needs about {:.1} GiB of memory, {:.1} are available", gib(needed), gib(available));
    Err(Diagnostic::config(message)
        .hint("make n_layer, n_embd, block_size or batch_size smaller; grad_accum gives large batches in less memory"))
}

/// Bytes a training step needs, to within a factor of two or so.
fn estimate(shape: &GptShape, batch_size: usize) -> u128 {
    let [vocab, block, layers, heads, width, batch] =
        [shape.vocab, shape.block_size, shape.n_layer, shape.n_head, shape.n_embd, batch_size]
            .map(|n| n as u128);
    let tables = (vocab * if shape.tie_weights { 1 } else { 2 } + block) * width;
    let parameters = tables + layers * 12 * width * width;
    let tokens = batch * block;
    // Logits, their logarithms and both gradients; streams; attention scores, masked, normalised.
    let activations = 4 * tokens * vocab + layers * tokens * (STREAMS_A_BLOCK * width + 3 * heads * block);
    parameters * BYTES_A_PARAMETER + activations * 4
}

/// Bytes that can be had, as Linux says; `None` elsewhere.
fn available() -> Option<u128> {
    let text = fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    Some(line.trim().strip_suffix(" kB")?.trim().parse::<u128>().ok()? * 1024)
}

/// The most memory this process has had, bytes, as Linux says; `None` elsewhere.
#[must_use]
pub fn peak_rss() -> Option<u64> {
    let text = fs::read_to_string("/proc/self/status").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    Some(line.trim().strip_suffix(" kB")?.trim().parse::<u64>().ok()? * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shape(n_layer: usize, n_embd: usize, vocab: usize) -> GptShape {
        GptShape { vocab, block_size: 1024, n_layer, n_head: 12, n_embd, bias: false, tie_weights: true }
    }

    #[test]
    fn the_estimate_is_of_the_right_size_and_never_overflows() {
        let gib = |bytes: u128| bytes >> 30;
        // GPT-2 small: 124M parameters are 3 GiB with their states; activations of a batch of 8 several times that.
        let gpt2 = gib(estimate(&shape(12, 768, 50257), 8));
        assert!((10..40).contains(&gpt2), "{gpt2} GiB");
        let most = i32::MAX as usize;
        assert!(estimate(&shape(most, most, most), most) > 1 << 100);
    }
}
