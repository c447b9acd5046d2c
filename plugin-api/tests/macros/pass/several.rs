//! A format and a sink in one library, a second sink added by another module, and a comma at the end.

use altgrad_plugin_api::{
    Config, Descriptor, Format, FormatSpec, Metric, PluginError, QuantParams, QuantStats, RunInfo, RunOutcome, Scales,
    Sink, Tabulated,
};

struct Sign(Tabulated);

impl Format for Sign {
    const DESCRIPTOR: Descriptor = Descriptor::format("SIGN", "1.0.0", "1 and -1");

    fn new(_: &Config) -> Result<Self, PluginError> {
        Ok(Self(Tabulated::new([1.0, -1.0])?))
    }
    fn spec(&self) -> FormatSpec {
        self.0.spec()
    }
    fn fake_quant(
        &self,
        src: &[f32],
        dst: &mut [f32],
        params: &QuantParams<'_>,
        histogram: &mut [u64],
    ) -> Result<QuantStats, PluginError> {
        self.0.fake_quant(src, dst, params, histogram)
    }
    fn encode(&self, src: &[f32], dst: &mut [u16], params: &QuantParams<'_>) -> Result<(), PluginError> {
        self.0.encode(src, dst, params)
    }
    fn decode(&self, codes: &[u16], dst: &mut [f32], scales: &Scales<'_>) -> Result<(), PluginError> {
        self.0.decode(codes, dst, scales)
    }
}

struct Silent<const NUMBER: u8>;

impl<const NUMBER: u8> Sink for Silent<NUMBER> {
    const DESCRIPTOR: Descriptor =
        Descriptor::sink(if NUMBER == 1 { "silent-1" } else { "silent-2" }, "1.0.0", "Writes nothing");

    fn new(_: &Config) -> Result<Self, PluginError> {
        Ok(Self)
    }
    fn open(&mut self, _: &RunInfo<'_>) -> Result<(), PluginError> {
        Ok(())
    }
    fn log(&mut self, _: u64, _: &[Metric<'_>]) -> Result<(), PluginError> {
        Ok(())
    }
    fn finish(&mut self, _: RunOutcome) -> Result<(), PluginError> {
        Ok(())
    }
}

mod more {
    altgrad_plugin_api::register!(sink super::Silent<2>);
}

altgrad_plugin_api::export_plugin!(format Sign, sink Silent<1>,);

fn main() {}
