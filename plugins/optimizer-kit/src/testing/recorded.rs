//! Replays the trajectory that another implementation has recorded.
//!
//! A recording is a text of lines, numbers are f32 bits in hexadecimal: `start NAME words`, a parameter before step 1;
//! `grad T words`, the gradient that all parameters get in step T; `after T NAME words`, a parameter after it; `# ` and
//! a remark.

use altgrad_plugin_api::PluginError;

use super::Param;

/// Magnitude below which deviations are absolute.
const SMALL: f32 = 1e-3;

/// The result of a replay.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RecordedRun {
    /// The number of recorded parameters that were compared.
    pub compared: usize,
    /// The largest deviation of an element, relative to its magnitude (to 1e-3 if that is larger).
    pub worst: f32,
}

impl RecordedRun {
    /// Prints the largest deviation and holds it to a tolerance.
    ///
    /// # Panics
    /// It is larger, or another number of parameters was compared.
    pub fn assert(self, compared: usize, tolerance: f32) {
        println!("largest relative deviation {:e}", self.worst);
        assert_eq!(self.compared, compared, "recorded parameters");
        assert!(self.worst <= tolerance, "largest relative deviation {:e} > {tolerance:e}", self.worst);
    }
}

/// The learning rate of step `t` in recordings: it rises over ten steps to `peak` and is halved from step 50 on.
#[must_use]
pub fn recorded_rate(peak: f64, t: u64) -> f64 {
    peak * (t as f64 / 10.0).min(1.0) * if t < 50 { 1.0 } else { 0.5 }
}

/// Takes every step of a recording with `step` (name, parameter, step from 1, gradient) and compares the results where
/// the recording has them.
///
/// # Errors
/// An invalid line, a parameter without a shape, or the optimizer's error.
pub fn replay(
    recording: &str,
    shapes: &[(&str, &[u64])],
    mut step: impl FnMut(&str, &mut Param, u64, &[f32]) -> Result<(), PluginError>,
) -> Result<RecordedRun, PluginError> {
    let mut params: Vec<(&str, Param)> =
        shapes.iter().map(|(name, shape)| (*name, Param::new(shape, &[]))).collect();
    let mut replay = RecordedRun { compared: 0, worst: 0.0 };
    for line in recording.lines().filter(|line| !line.starts_with('#')) {
        let mut fields = line.splitn(3, ' ');
        let [key, first, rest] = [(); 3].map(|()| fields.next().unwrap_or_default());
        match key {
            "start" => found(&mut params, first)?.w = words(rest)?,
            "grad" => {
                let (t, grad) = (first.parse().map_err(|_| bad(line))?, words(rest)?);
                for (name, param) in &mut params {
                    step(name, param, t, &grad)?;
                }
            }
            "after" => {
                let (name, values) = rest.split_once(' ').ok_or_else(|| bad(line))?;
                replay.worst = replay.worst.max(deviation(&found(&mut params, name)?.w, &words(values)?));
                replay.compared += 1;
            }
            _ => return Err(bad(line)),
        }
    }
    Ok(replay)
}

fn found<'a>(params: &'a mut [(&str, Param)], name: &str) -> Result<&'a mut Param, PluginError> {
    let param = params.iter_mut().find(|(known, _)| *known == name).map(|(_, param)| param);
    param
        .ok_or_else(|| PluginError::config(format!("no shape was given for the recorded parameter `{name}`")))
}

fn bad(line: &str) -> PluginError {
    PluginError::config(format!("no line of a recording: `{line}`"))
}

fn words(text: &str) -> Result<Vec<f32>, PluginError> {
    let word = |word| u32::from_str_radix(word, 16).map(f32::from_bits).map_err(|_| bad(text));
    text.split(' ').map(word).collect()
}

/// The largest deviation; infinite for other lengths and for NaN.
fn deviation(got: &[f32], expected: &[f32]) -> f32 {
    if got.len() != expected.len() {
        return f32::INFINITY;
    }
    let of = |(got, expected): (&f32, &f32)| (got - expected).abs() / expected.abs().max(SMALL);
    got.iter().zip(expected).map(of).map(|x| if x.is_nan() { f32::INFINITY } else { x }).fold(0.0, f32::max)
}

/// Holds elements to expected ones within a relative tolerance.
///
/// # Panics
/// An element is farther away.
pub fn assert_close(got: &[f32], expected: &[f32], tolerance: f32, what: &str) {
    for (i, (got, expected)) in got.iter().zip(expected).enumerate() {
        let allowed = tolerance * expected.abs().max(SMALL);
        assert!((got - expected).abs() <= allowed, "{what}, element {i}: {got:e}, expected {expected:e}");
    }
}
