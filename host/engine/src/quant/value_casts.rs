//! Casts of tensors that are no operands of linear layers: in attention, of residual sums, norms, embeddings and
//! logits.

use burn::tensor::Tensor;

use super::{
    Arrangement, CastParams, LayerId, QuantPass, Role, ScaleSource, SiteId, cast::cast, gradient_cast,
};

/// The casts of the sites of one parameter in one pass.
#[derive(Debug, Clone, Copy)]
pub struct ValueCasts<'a> {
    quant: &'a QuantPass<'a>,
    layer: LayerId,
    micro_batch: u64,
}

impl<'a> QuantPass<'a> {
    /// The casts of the sites that a parameter names.
    #[must_use]
    pub fn values(&'a self, layer: LayerId, micro_batch: u64) -> ValueCasts<'a> {
        ValueCasts { quant: self, layer, micro_batch }
    }
}

impl ValueCasts<'_> {
    /// True if one of these roles is rounded, or observed in the current pass.
    #[must_use]
    pub fn any(&self, roles: &[Role]) -> bool {
        roles.iter().any(|role| self.quant.site(self.layer, *role).is_some())
            || self.quant.observes(self.layer, roles)
    }

    /// `x` as it is rounded, if it is. Blocks run along the last axis.
    #[must_use]
    pub fn cast<const D: usize>(&self, role: Role, x: Tensor<D>) -> Tensor<D> {
        if let Some(observer) = self.quant.observer().filter(|observer| observer.has(self.layer, role)) {
            observer.value(self.layer, role, &rows(&x));
        }
        let Some((id, matrix, shape)) = self.matrix(role, &x) else { return x };
        let rounded = cast(matrix, self.params(id, shape[D - 1]));
        self.quant.push(id, rounded.stats);
        rounded.values.reshape(shape)
    }

    /// `x`, whose gradient is rounded, if it is.
    #[must_use]
    pub fn cast_gradient<const D: usize>(&self, role: Role, x: Tensor<D>) -> Tensor<D> {
        if !x.device().is_autodiff() {
            return x;
        }
        let y = match self.matrix(role, &x) {
            Some((id, matrix, shape)) => {
                let zero = self.quant.plan().zero(&matrix.device());
                let (y, stats) = gradient_cast::cast_gradient(matrix, self.params(id, shape[D - 1]), zero);
                self.quant.push_gradient(id, stats);
                y.reshape(shape)
            }
            None => x,
        };
        match self.quant.observer().filter(|observer| observer.has(self.layer, role)) {
            Some(observer) => {
                let shape = y.dims();
                observer.gradient(self.layer, &[(role, false)], rows(&y)).reshape(shape)
            }
            None => y,
        }
    }

    /// The site of a role and `x` as a matrix of rows along its last axis; `None` if it is not rounded.
    fn matrix<const D: usize>(&self, role: Role, x: &Tensor<D>) -> Option<(SiteId, Tensor<2>, [usize; D])> {
        let (id, _) = self.quant.site(self.layer, role)?;
        Some((id, rows(x), x.dims()))
    }

    /// The cast for rows of `width`, which may be shorter than those of training: blocks are at most rows.
    fn params(&self, id: SiteId, width: usize) -> CastParams {
        let key = self.quant.key(id, self.micro_batch);
        let mut params = self.quant.cast_params(id, self.layer, key);
        if let ScaleSource::Dynamic(rule) = &mut params.quant.scale
            && params.arrangement.tile[0] == 1
            && let Some(group) = &mut rule.group
        {
            *group = (*group).min(width);
            params.arrangement = Arrangement::along(*group);
        }
        params
    }
}

/// A tensor as a matrix of rows along its last axis.
fn rows<const D: usize>(x: &Tensor<D>) -> Tensor<2> {
    let shape = x.dims();
    let width = shape[D - 1];
    x.clone().reshape([shape.iter().product::<usize>() / width.max(1), width])
}
