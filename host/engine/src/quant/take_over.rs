//! The change from one phase of casts to the next: state that passes to the new context, and settings that may not change.

use std::mem::discriminant;

use super::{LayerId, QuantContext, Role, Site, SiteId};

impl QuantContext {
    /// Continues from `old`: the scales of the sites that both have, if they are delayed in both or static in both, keep their
    /// recorded magnitudes, and weights without master weights keep their scales. Other sites start again.
    pub fn take_over(&mut self, old: &Self) {
        let pairs = self.layers.iter().filter_map(|(key, id)| Some((*id, *old.layers.get(key)?)));
        let pairs: Vec<(SiteId, SiteId)> = pairs.collect();
        for &(new, old_id) in &pairs {
            let (site, old_site) = (&self.sites[new], &old.sites[old_id]);
            let is_alike = discriminant(&site.scaling) == discriminant(&old_site.scaling);
            if is_alike && let (Some(_), Some(history)) = (site.amax_history(), old_site.amax_history()) {
                site.set_amax_history(history);
            }
        }
        let new_id = |old_id: SiteId| pairs.iter().find(|(_, old)| *old == old_id).map(|(new, _)| *new);
        let stats = old.grid_stats.lock();
        let stats = stats.iter().filter_map(|(id, stats)| Some((new_id(*id)?, stats.clone())));
        *self.grid_stats.lock() = stats.collect();
        let scales = old.weight_scales.lock();
        let scales = scales.iter().filter_map(|(id, scales)| Some((new_id(*id)?, scales.clone())));
        *self.weight_scales.lock() = scales.collect();
        self.begin_step(old.step());
    }

    /// A layer whose weight is stored otherwise in `other`: on a grid in one only, or on different grids.
    #[must_use]
    pub fn stored_otherwise(&self, other: &Self) -> Option<LayerId> {
        let layers = self.layers.keys().chain(other.layers.keys()).map(|(layer, _)| *layer);
        let mut layers = layers.filter(|&layer| match (self.stored_site(layer), other.stored_site(layer)) {
            (None, None) => false,
            (Some(own), Some(others)) => !stores_alike(own, others),
            _ => true,
        });
        layers.next()
    }

    /// The site whose grid a layer's weight lies on, if it does.
    fn stored_site(&self, layer: LayerId) -> Option<&Site> {
        self.site_of(layer, Role::Weight).filter(|_| self.is_stored_on_grid(layer))
    }
}

/// True if both sites store a weight on the same grid.
fn stores_alike(a: &Site, b: &Site) -> bool {
    let name = |site: &Site| site.format.plugin().identity.name.clone();
    let how = |site: &Site| (site.rounding, site.scaling, site.tile, site.arithmetic);
    name(a) == name(b) && how(a) == how(b)
}
