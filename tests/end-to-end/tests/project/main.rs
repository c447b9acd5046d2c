//! The project's own rules, where a machine can check them: rules of sources, and of dependencies between crates. They need no
//! staged host.

#![allow(clippy::unwrap_used)]

mod citations;
mod commit;
mod layers;
mod messages;
mod results;
mod signatures;
mod sources;
mod walkthroughs;

use altgrad_end_to_end::root;
