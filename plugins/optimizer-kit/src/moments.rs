//! Adam's two moments in one update.

/// Everything of one update of the moments that is the same for all elements.
#[derive(Debug, Clone, Copy)]
pub struct Moments {
    /// `1 - beta1`.
    pub(crate) mix1: f32,
    pub(crate) beta2: f32,
    /// `1 - beta2`.
    pub(crate) mix2: f32,
    /// `sqrt(1 - beta2^t)`.
    pub(crate) correction2_sqrt: f32,
    pub(crate) eps: f32,
    /// `lr / (1 - beta1^t)`.
    pub(crate) step_size: f32,
}

impl Moments {
    /// As a device takes them: f32 bits.
    pub(crate) fn words(&self) -> [u32; 6] {
        let Self { mix1, beta2, mix2, correction2_sqrt, eps, step_size } = *self;
        [mix1, beta2, mix2, correction2_sqrt, eps, step_size].map(f32::to_bits)
    }

    /// Takes gradient `g` into the moments; returns `lr * m_hat / (sqrt(v_hat) + eps)`, to be subtracted.
    ///
    /// A gradient that is not finite spreads into the moments.
    #[inline(always)]
    #[must_use]
    pub fn step(&self, g: f32, m: &mut f32, v: &mut f32) -> f32 {
        // = beta1 m + (1 - beta1) g, as PyTorch's lerp_ rounds it for beta1 > 0.5.
        *m += self.mix1 * (g - *m);
        *v = self.beta2 * *v + self.mix2 * g * g;
        let denominator = v.sqrt() / self.correction2_sqrt + self.eps;
        self.step_size * *m / denominator
    }
}
