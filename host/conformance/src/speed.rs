//! The time of a plugin's work, for comparisons with that of others: of a format, rounding to nearest; of an optimizer,
//! an update of a matrix; of a sink, a row.
//!
//! Begins with one element, so that a plugin of any speed is measured, and ends when a call takes long enough.

use std::time::{Duration, Instant};

use altgrad_plugin_api::{QuantParams, Scope};

use crate::{
    Subject,
    optimizers::{OptimizerSubject, Param, grids, numbers, rule_of},
    sinks::SinkSubject,
    subject::{UNWRITTEN, said},
};

/// A call that takes this long is measured well enough.
const ENOUGH: Duration = Duration::from_millis(5);
/// Calls of a size, of which the fastest counts: a busy machine interrupts single ones.
const CALLS: usize = 9;
/// No further call of a size is made after this time.
const LONG: Duration = Duration::from_millis(100);
/// The largest extent of a matrix, and the largest root of a number of elements or rows.
const LARGEST: usize = 128;

/// Nanoseconds per element of the fastest of the last calls, or an error.
type Speed = Result<f64, String>;

/// Measures `work`, which makes a call for `extent * extent` elements from what `prepare` made.
fn measured<T>(
    mut prepare: impl FnMut(usize) -> Result<T, String>,
    mut work: impl FnMut(&mut T) -> Result<(), String>,
) -> Speed {
    let mut extent = 1;
    loop {
        let mut prepared = prepare(extent)?;
        let mut fastest = Duration::MAX;
        let begun = Instant::now();
        // The first call of a size may allocate.
        for _ in 0..CALLS {
            let one = Instant::now();
            work(&mut prepared)?;
            fastest = fastest.min(one.elapsed());
            if begun.elapsed() > LONG {
                break;
            }
        }
        if fastest >= ENOUGH || extent == LARGEST {
            return Ok(fastest.as_secs_f64() * 1e9 / (extent * extent) as f64);
        }
        extent *= 2;
    }
}

/// Of a format.
///
/// # Errors
/// A call failed.
pub fn of_format(subject: &Subject) -> Speed {
    let (instance, params) = (subject.instance()?, QuantParams::IDENTITY);
    measured(
        |extent| {
            let src: Vec<f32> = (0..extent * extent).map(|i| (i as f32 * 0.7).sin()).collect();
            Ok((vec![UNWRITTEN; src.len()], src))
        },
        |(dst, src)| {
            let rounded = instance.fake_quant(src, dst, &params, &mut []);
            rounded.map(drop).map_err(|error| said("fake_quant", &error))
        },
    )
}

/// Of an optimizer, and the scope of the update that is measured.
///
/// # Errors
/// A call failed, or the optimizer takes no matrix.
pub fn of_optimizer(subject: &OptimizerSubject) -> Result<(f64, Scope), String> {
    const NAME: &str = "h.0.mlp.c_fc.weight";
    let (object, grids) = (subject.instance()?, grids()?);
    let shapes: Vec<[u64; 2]> = (0..=LARGEST.ilog2()).map(|power| [1 << power; 2]).collect();
    let mut taken = None;
    for grid in &grids {
        if taken.is_none() && rule_of(&object, (NAME, &shapes[1]), grid.as_ref())?.is_some() {
            taken = Some(grid.as_ref());
        }
    }
    let grid = taken.ok_or("it takes no matrix")?;
    let scope = Param::new(&object, NAME, &shapes[1], grid)?.scope();
    let speed = measured(
        |extent| {
            let shape = &shapes[extent.ilog2() as usize];
            Ok((Param::new(&object, NAME, shape, grid)?, numbers(1, extent * extent), 0))
        },
        |(param, grad, update)| {
            *update += 1;
            param.step(&object, grad, *update).map_err(|error| said("step", &error))
        },
    );
    Ok((speed?, scope))
}

/// Of a sink, per row.
///
/// # Errors
/// A call failed.
pub fn of_sink(subject: &SinkSubject) -> Speed {
    let mut step = 0;
    measured(
        |extent| {
            let scratch = subject.scratch()?;
            Ok((subject.opened(&scratch)?, scratch, extent * extent))
        },
        |(sink, _, rows)| {
            for _ in 0..*rows {
                sink.log(step, &[("train/loss", 1.0 / (1.0 + step as f64))])?;
                step += 1;
            }
            Ok(())
        },
    )
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn calls_that_a_busy_machine_interrupts_are_not_counted() {
        let mut calls = 0;
        let interrupted = |_: &mut ()| {
            calls += 1;
            if calls % CALLS < 3 {
                std::thread::sleep(3 * ENOUGH);
            }
            Ok(())
        };
        let speed = measured(|_| Ok(()), interrupted).unwrap();
        assert!(speed < 1e9 * ENOUGH.as_secs_f64() / (LARGEST * LARGEST) as f64, "{speed}");
    }
}
