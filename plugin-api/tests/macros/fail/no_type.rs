//! A kind without a type.

altgrad_plugin_api::export_plugin!(optimizer);

fn main() {}
