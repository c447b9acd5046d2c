//! What blocks of a format have of their own: one of several tables of values, and the magnitude that is scaled to the
//! target. [`Conventions`] declare both; `block_choice` makes the choice.

use std::{fmt, sync::Arc};

use altgrad_plugin_api::{
    CodebookChoice, Conventions, PluginError, QuantParams, RandomKey, Rounding, Scales, Tabulated,
};

use crate::blocks::BlockGrid;

/// The magnitude that a format gives the elements of a block: [`altgrad_plugin_api::Format::magnitude`].
pub type BlockMagnitude = dyn Fn(&[f32]) -> Result<f32, String> + Send + Sync;

/// The tables of a format, and the magnitude of blocks.
#[derive(Clone, Default)]
pub(crate) struct OwnBlocks {
    /// That of the description first; empty if it is the only one.
    tables: Arc<[Tabulated]>,
    choice: Option<CodebookChoice>,
    has_magnitude: bool,
    magnitude: Option<Arc<BlockMagnitude>>,
}

/// Implemented by hand: a function has no `Debug`.
impl fmt::Debug for OwnBlocks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OwnBlocks").field("tables", &self.tables.len()).finish_non_exhaustive()
    }
}

impl OwnBlocks {
    /// The tables that a format declares beside its `own`.
    pub(crate) fn new(
        own: impl IntoIterator<Item = f32>,
        conventions: &Conventions,
    ) -> Result<Self, PluginError> {
        let has_magnitude = conventions.has_magnitude;
        if conventions.codebooks.is_empty() {
            return Ok(Self { has_magnitude, ..Self::default() });
        }
        let own = std::iter::once(Tabulated::new(own));
        let others = conventions.codebooks.iter().map(|table| Tabulated::codebook(table.iter().copied()));
        let tables = own.chain(others).collect::<Result<_, _>>()?;
        Ok(Self { tables, choice: Some(conventions.choice), has_magnitude, magnitude: None })
    }

    /// The same with the function that gives magnitudes.
    pub(crate) fn with_magnitude(self, magnitude: Arc<BlockMagnitude>) -> Self {
        Self { magnitude: Some(magnitude), ..self }
    }

    /// True if a block depends on more than the host's rule.
    pub(crate) fn are_any(&self) -> bool {
        self.has_magnitude || !self.tables.is_empty()
    }

    /// True if blocks choose among tables.
    pub(crate) fn have_tables(&self) -> bool {
        !self.tables.is_empty()
    }

    /// The tables by number.
    pub(crate) fn tables(&self) -> &[Tabulated] {
        &self.tables
    }

    /// True if a block takes the table with the largest scale, not that with the least error.
    pub(crate) fn take_largest_scale(&self) -> bool {
        self.choice == Some(CodebookChoice::LARGEST_SCALE)
    }

    /// The format's magnitude of a block, if it has one.
    pub(crate) fn magnitude_of(&self, elements: &[f32]) -> Option<Result<f32, String>> {
        let not_at_hand = || Err("its function is not at hand".into());
        self.has_magnitude.then(|| self.magnitude.as_ref().map_or_else(not_at_hand, |of| of(elements)))
    }

    /// The table with this number.
    pub(crate) fn table(&self, number: u16) -> &Tabulated {
        &self.tables[usize::from(number)]
    }

    /// The codes of scaled elements, each in the table of its block.
    ///
    /// # Errors
    /// The mode is unknown to the tables, or an element is NaN without a code.
    pub(crate) fn codes(
        &self,
        (scaled, layout, tables): (&[f32], &BlockGrid, &[u16]),
        rounding: Rounding,
        key: &RandomKey,
    ) -> Result<Vec<u16>, PluginError> {
        let mut codes = vec![0; scaled.len()];
        for (block, run) in layout.runs() {
            let params = QuantParams { scales: Scales::ONE, rounding, key: *key }.skip(run.start as u64);
            let encoded = self.table(tables[block]).encode(&scaled[run.clone()], &mut codes[run], &params);
            encoded?;
        }
        Ok(codes)
    }
}
