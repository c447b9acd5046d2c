//! A C sink with the interface of all sinks. It gets no distributions and alerts, and checkpoints keep no state of it.

use crate::ffi::c_plugins::{CInstance, CSink};
use altgrad_plugin_api::{
    Alert, Histogram, Metric, PluginError, RunInfo, RunOutcome, StoredValue,
    abi::{
        SinkAbi,
        stable::std_types::{ROption, RResult, RSlice, RStr, RVec},
    },
};

/// An instance.
pub(super) struct Instance {
    pub(super) sink: CSink,
    pub(super) instance: CInstance,
}

impl SinkAbi for Instance {
    fn open(&mut self, run: &RunInfo<'_>) -> RResult<(), PluginError> {
        self.sink.open(&mut self.instance, run).into()
    }

    fn log(&mut self, step: u64, metrics: RSlice<'_, Metric<'_>>) -> RResult<(), PluginError> {
        self.sink.log(&mut self.instance, step, &metrics).into()
    }

    fn histogram(&mut self, _: u64, _: &Histogram<'_>) -> RResult<(), PluginError> {
        RResult::ROk(())
    }

    fn alert(&mut self, _: &Alert<'_>) -> RResult<(), PluginError> {
        RResult::ROk(())
    }

    fn state(&mut self) -> RResult<RVec<u8>, PluginError> {
        RResult::ROk(RVec::new())
    }

    fn summary(&mut self, metrics: RSlice<'_, Metric<'_>>) -> RResult<(), PluginError> {
        self.sink.summarize(&mut self.instance, &metrics).into()
    }

    fn finish(&mut self, outcome: RunOutcome) -> RResult<(), PluginError> {
        self.sink.finish(&mut self.instance, outcome.0).into()
    }

    fn read_back(&self, _: RStr<'_>) -> RResult<ROption<RVec<StoredValue>>, PluginError> {
        RResult::ROk(ROption::RNone)
    }
}
