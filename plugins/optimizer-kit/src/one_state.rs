//! Optimizers that keep one state: the update of an element, and the loop.
//!
//! [`update`] runs a rule over a parameter, as [`Buffers::update`](crate::Buffers::update) does for Adam's two states:
//! one pass, compiled for several SIMD widths. A NaN in any input becomes a NaN in the weight.

use multiversion::multiversion;

use crate::exp::exp;

/// One element's update.
pub trait OneState {
    /// The new weight; the state `m` changes in place.
    fn step(&self, w: f32, g: f32, m: &mut f32) -> f32;
}

/// Updates every element. All `[n]` f32.
#[multiversion(targets(
    "x86_64+avx2+avx512f+avx512bw+avx512cd+avx512dq+avx512vl+bmi1+bmi2+fma",
    "x86_64+avx2+bmi1+bmi2+fma"
))]
pub fn update<R: OneState>(rule: &R, param: &mut [f32], grad: &[f32], state: &mut [f32]) {
    for ((w, &g), m) in param.iter_mut().zip(grad).zip(state) {
        *w = rule.step(*w, g, m);
    }
}

/// Gradient descent with momentum; see [`Self::step`].
#[derive(Debug, Clone, Copy)]
pub struct Momentum {
    /// The learning rate.
    pub lr: f32,
    /// Share of the momentum that stays.
    pub momentum: f32,
    /// Share of the gradient that is added to the momentum.
    pub mix: f32,
    /// True if a step is along `g + momentum m`, not along `m`.
    pub nesterov: bool,
    /// The factor of decay.
    pub keep: f32,
    /// Coupled weight decay: that much of the weight is added to the gradient.
    pub coupled: f32,
}

impl OneState for Momentum {
    #[inline(always)]
    fn step(&self, w: f32, g: f32, m: &mut f32) -> f32 {
        let g = g + self.coupled * w;
        *m = self.momentum * *m + self.mix * g;
        self.keep * w - self.lr * if self.nesterov { g + self.momentum * *m } else { *m }
    }
}

/// Lion: `w <- keep w - lr sign(beta1 m + mix1 g)`, `m <- beta2 m + mix2 g`.
#[derive(Debug, Clone, Copy)]
pub struct Sign {
    /// The learning rate.
    pub lr: f32,
    /// The factor of decay.
    pub keep: f32,
    /// Shares of momentum and gradient in the direction.
    pub direction: [f32; 2],
    /// Shares of momentum and gradient in the new momentum.
    pub memory: [f32; 2],
}

impl OneState for Sign {
    #[inline(always)]
    fn step(&self, w: f32, g: f32, m: &mut f32) -> f32 {
        let [kept, taken] = self.direction;
        let direction = kept * *m + taken * g;
        let sign = if direction == 0.0 { 0.0 } else { direction.signum() };
        *m = self.memory[0] * *m + self.memory[1] * g;
        self.keep * w - self.lr * sign
    }
}

/// A gradient over the root of its mean square, which is the state.
#[derive(Debug, Clone, Copy)]
pub struct Normalized {
    /// Memory of the mean square.
    pub beta: f32,
    /// `1 - beta`.
    pub mix: f32,
    /// `1 - beta^t`.
    pub correction: f32,
    /// Largest magnitude.
    pub bound: f32,
    /// True if it is rounded to a whole number.
    pub whole: bool,
}

impl Normalized {
    #[inline(always)]
    fn of(&self, g: f32, square: &mut f32) -> f32 {
        *square = self.beta * *square + self.mix * g * g;
        // If every gradient was zero, the normalised gradient is zero.
        let normed = if *square == 0.0 { 0.0 } else { g / (*square / self.correction).sqrt() };
        let normed = normed.clamp(-self.bound, self.bound);
        if self.whole { normed.round_ties_even() } else { normed }
    }
}

/// Madam: `w <- keep w e^(-lr sign(w) r)` within `+-bound`, r the normalized gradient. A factor is at most `e^87`.
#[derive(Debug, Clone, Copy)]
pub struct Multiplied {
    /// r.
    pub normalized: Normalized,
    /// The factor of decay.
    pub keep: f32,
    /// The learning rate times the logarithm of the base.
    pub lr: f32,
    /// Largest magnitude of a weight; a NaN holds nothing.
    pub bound: f32,
}

impl OneState for Multiplied {
    #[inline(always)]
    fn step(&self, w: f32, g: f32, square: &mut f32) -> f32 {
        let step = self.lr * self.normalized.of(g, square);
        let to = self.keep * w * exp(-step * w.signum());
        if to > self.bound {
            self.bound
        } else if to < -self.bound {
            -self.bound
        } else {
            to
        }
    }
}

/// `w <- keep w - lr r`, r the normalized gradient.
#[derive(Debug, Clone, Copy)]
pub struct Added {
    /// r.
    pub normalized: Normalized,
    /// The factor of decay.
    pub keep: f32,
    /// The learning rate.
    pub lr: f32,
}

impl OneState for Added {
    #[inline(always)]
    fn step(&self, w: f32, g: f32, square: &mut f32) -> f32 {
        self.keep * w - self.lr * self.normalized.of(g, square)
    }
}
