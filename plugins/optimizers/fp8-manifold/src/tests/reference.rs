//! Two slow implementations in f64, written from the definitions: Adam on the code coordinate, and Riemannian Adam with
//! momentum that is transported. They must agree with each other, and the plugin with both.

use super::*;

const BETA: [f64; 2] = [0.9, 0.95];
const EPS: f64 = 1e-16;

/// A code coordinate of values, in weight units: scale, bits and the chart.
#[derive(Clone, Copy)]
struct Line {
    format: Minifloat,
    scale: f64,
    asinh: bool,
}

impl Line {
    fn emin(&self) -> i32 {
        1 - self.format.bias
    }

    fn per_binade(&self) -> f64 {
        2f64.powi(self.format.significand_bits as i32)
    }

    /// b of the asinh chart.
    fn b(&self) -> f64 {
        2f64.powi(self.emin()) / std::f64::consts::LN_2
    }

    fn exponent(&self, x: f64) -> i32 {
        if x == 0.0 { self.emin() } else { (x.abs().log2().floor() as i32).max(self.emin()) }
    }

    /// Spacing in weight units.
    fn spacing(&self, w: f64) -> f64 {
        let x = w * self.scale;
        let stored = if self.asinh {
            std::f64::consts::LN_2 / self.per_binade() * (x * x + self.b() * self.b()).sqrt()
        } else {
            2f64.powi(self.exponent(x)) / self.per_binade()
        };
        stored / self.scale
    }

    fn phi(&self, w: f64) -> f64 {
        let x = w * self.scale;
        if self.asinh {
            return self.per_binade() / std::f64::consts::LN_2 * (x / self.b()).asinh();
        }
        let lowest = 2f64.powi(self.emin());
        if x.abs() < lowest {
            return x / (lowest / self.per_binade());
        }
        let e = self.exponent(x);
        let u = self.per_binade() * (f64::from(e + self.format.bias - 1) + x.abs() / 2f64.powi(e));
        u.copysign(x)
    }

    fn phi_inverse(&self, u: f64) -> f64 {
        let magnitude = u.abs();
        let x = if self.asinh {
            self.b() * (magnitude * std::f64::consts::LN_2 / self.per_binade()).sinh()
        } else if magnitude < self.per_binade() {
            magnitude * 2f64.powi(self.emin()) / self.per_binade()
        } else {
            let e = (magnitude / self.per_binade()).floor();
            2f64.powi(e as i32 - self.format.bias) * (magnitude / self.per_binade() - e + 1.0)
        };
        x.copysign(u) / self.scale
    }
}

/// One coordinate and its moments.
#[derive(Clone, Copy)]
struct State {
    at: f64,
    m: f64,
    v: f64,
}

impl State {
    /// Moments of `g`, with `square` for g^2; the step to subtract.
    fn adam(&mut self, g: f64, square: f64, lr: f64, t: i32) -> f64 {
        self.m = BETA[0] * self.m + (1.0 - BETA[0]) * g;
        self.v = BETA[1] * self.v + (1.0 - BETA[1]) * square;
        let (m_hat, v_hat) = (self.m / (1.0 - BETA[0].powi(t)), self.v / (1.0 - BETA[1].powi(t)));
        lr * m_hat / (v_hat.sqrt() + EPS)
    }

    /// Plain Adam on u = phi(w), h = S g.
    fn on_codes(&mut self, line: &Line, g: f64, lr: f64, t: i32) {
        let h = line.spacing(line.phi_inverse(self.at)) * g;
        self.at -= self.adam(h, h * h, lr, t);
    }

    /// Riemannian Adam on w: r = S^2 g, the metric's square of r is r^2 / S^2, Exp along the grid, m transported.
    fn riemannian(&mut self, line: &Line, g: f64, lr: f64, t: i32) {
        let before = line.spacing(self.at);
        let r = before * before * g;
        let step = self.adam(r, r * r / (before * before), lr, t);
        self.at = line.phi_inverse(line.phi(self.at) - step / before);
        self.m *= line.spacing(self.at) / before;
    }
}

/// Fifty steps of 0.7 codes from weights all over the format; returns the largest difference, in codes, of the plugin
/// to the references, and of the references to each other.
fn run(line: Line, given: &[(&str, ConfigValue)]) -> [f64; 2] {
    let optimizer = manifold(given);
    let spec = FormatSpec::Minifloat(line.format);
    let top = f64::from(MinifloatGrid::new(line.format).unwrap().max_code());
    // Up to 60 codes from the ends, so that none is reached; some near zero, which cross it.
    let start: Vec<f32> = numbers(1, 48)
        .iter()
        .enumerate()
        .map(|(i, x)| line.phi_inverse(f64::from(*x) * if i % 3 == 0 { 4.0 } else { top - 60.0 }) as f32)
        .collect();
    let mut param = Param::new(&[48], &start).on(&spec, line.scale as f32);
    let at = |at| State { at, m: 0.0, v: 0.0 };
    let mut codes: Vec<State> = start.iter().map(|&w| at(line.phi(w.into()))).collect();
    let mut riemann: Vec<State> = start.iter().map(|&w| at(w.into())).collect();
    // A gradient that has a direction; large, so that squares of S g stay above f32's smallest numbers.
    let mean = numbers(1 << 40, 48);
    let mut worst = [0f64; 2];
    for t in 1..=50 {
        let grad: Vec<f32> = numbers(t + 7, 48).iter().zip(&mean).map(|(g, mean)| (g + mean) * 1e6).collect();
        param.step(&optimizer, 0.7, t, &grad).unwrap();
        for (i, &g) in grad.iter().enumerate() {
            codes[i].on_codes(&line, g.into(), 0.7, t as i32);
            riemann[i].riemannian(&line, g.into(), 0.7, t as i32);
            let [plugin, riemannian] =
                [f64::from(param.w[i]), riemann[i].at].map(|w| (line.phi(w) - codes[i].at).abs());
            worst = [worst[0].max(plugin), worst[1].max(riemannian)];
        }
    }
    let crossed = start.iter().zip(&param.w).filter(|(from, to)| from.signum() != to.signum()).count();
    assert!(crossed > 3, "{:?}: {crossed} weights crossed zero", line.format);
    worst
}

#[test]
fn adam_on_codes_and_riemannian_adam_are_the_same_and_what_the_plugin_does() {
    for format in formats() {
        for scale in [1.0, f64::from(0.37f32)] {
            let [plugin, riemannian] = run(Line { format, scale, asinh: false }, &[]);
            assert!(
                riemannian < 1e-9,
                "{format:?}, scale {scale}: the references differ by {riemannian} codes"
            );
            assert!(plugin < 1e-4, "{format:?}, scale {scale}: {plugin} codes");
        }
    }
}

#[test]
fn the_asinh_chart_is_adam_on_its_own_coordinate() {
    for format in formats() {
        let [plugin, riemannian] =
            run(Line { format, scale: f64::from(0.37f32), asinh: true }, &[("chart", text("asinh"))]);
        assert!(riemannian < 1e-9 && plugin < 1e-4, "{format:?}: {plugin} and {riemannian} codes");
    }
}

/// The grid of E1M6 is even: the metric is Euclid's, times a constant.
#[test]
fn on_an_even_grid_it_is_scaled_adam() {
    let [_, e1m6, ..] = formats();
    let euclidean = manifold(&[("eps", float(1e-30))]);
    let start: Vec<f32> = numbers(4, 32);
    let mut on = Param::new(&[32], &start).on(&FormatSpec::Minifloat(e1m6), 2.0);
    let mut plain = Param::new(&[32], &start);
    for t in 1..=100 {
        let grad = numbers(t + 50, 32);
        on.step(&euclidean, 0.5, t, &grad).unwrap();
        // A code is 2^-5 stored, 2^-6 in weight units.
        plain.step(&euclidean, 0.5 / 64.0, t, &grad).unwrap();
        for (on, plain) in on.w.iter().zip(&plain.w) {
            assert!((on - plain).abs() < 2e-6 * plain.abs().max(0.1), "update {t}: {on}, expected {plain}");
        }
    }
}
