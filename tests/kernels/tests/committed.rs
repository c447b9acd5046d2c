//! The committed kernel texts equal those that their sources generate.

#![allow(clippy::unwrap_used)]

use std::thread;

use altgrad_end_to_end::root;
use altgrad_kernel_generator::{COMMAND, OWNERS, Owner};

#[test]
fn committed_texts_are_what_their_sources_generate() {
    let root = &root();
    let behind: Vec<&str> = thread::scope(|scope| {
        let check = |owner: Owner| owner.is_behind(root, &owner.made()).unwrap().then_some(owner.file);
        let threads = OWNERS.map(|owner| scope.spawn(move || check(owner)));
        threads.into_iter().filter_map(|thread| thread.join().unwrap()).collect()
    });
    assert!(behind.is_empty(), "not what their sources generate: {behind:?}; run `{COMMAND}`");
}
