//! The committed kernel texts equal those that their sources generate, and every optimizer with a `src/kernel.rs`
//! has them.

#![allow(clippy::unwrap_used)]

use std::{fs, thread};

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

#[test]
fn every_optimizer_with_kernels_is_generated() {
    for entry in fs::read_dir(root().join("plugins/optimizers")).unwrap() {
        let plugin = format!("plugins/optimizers/{}", entry.unwrap().file_name().display());
        let listed = OWNERS.iter().any(|owner| owner.file.starts_with(&format!("{plugin}/")));
        let source = root().join(&plugin).join("src/kernel.rs").exists();
        assert_eq!(listed, source, "{plugin}: its `src/kernel.rs`, and the list of altgrad-kernel-generator");
    }
}
