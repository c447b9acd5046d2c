//! A kind of plugin that does not exist.

struct Nothing;

altgrad_plugin_api::export_plugin!(loss Nothing);

fn main() {}
