//! The texts' descriptions of themselves, checked by the conformance suite, which checks every
//! plugin in the same way.

use altgrad_conformance::{Verdict, check};
use altgrad_test_kernels::formats;

#[test]
fn every_text_is_whole() {
    let kernels = check("kernels").unwrap();
    for subject in formats::all().iter().flatten() {
        assert_eq!((kernels.run)(&subject.conformance), Ok(Verdict::Passed), "{}", subject.name);
    }
}
