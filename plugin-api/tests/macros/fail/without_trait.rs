//! A type that implements no trait.

struct Nothing;

altgrad_plugin_api::export_plugin!(format Nothing);

fn main() {}
