//! An export of nothing.

altgrad_plugin_api::export_plugin!();

fn main() {}
