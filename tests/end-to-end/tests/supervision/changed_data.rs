//! Token bins that change under a run: it ends with an error that names the file, and a checkpoint.

use std::{fs, io::Write};

use altgrad_end_to_end::Bench;

use super::processes::endless_in;

/// The end of a run whose training bin is changed: exit code and standard error.
fn ended_by(change: impl Fn(&mut fs::File)) -> (Option<i32>, String) {
    let bench = Bench::new();
    fs::create_dir(bench.path("bins")).unwrap();
    let ids: Vec<u8> = (0..20_000u32).flat_map(|at| ((at * at % 27) as u16).to_le_bytes()).collect();
    for name in ["train.bin", "val.bin"] {
        fs::write(bench.path("bins").join(name), &ids).unwrap();
    }
    bench.write("bins/meta.json", "{\"vocab_size\": 27}");
    let set = ["--set", "data.dataset=bins:bins", "--set", "data.tokenizer=byte"];
    let (bench, mut child) = endless_in(bench, &["env"], &set);
    change(&mut fs::File::options().write(true).open(bench.path("bins/train.bin")).unwrap());
    let code = child.wait().unwrap().code();
    assert!(bench.path("run/checkpoints/last").exists(), "{}", bench.read("stderr"));
    (code, bench.read("stderr"))
}

#[test]
fn a_bin_that_is_cut_short_or_overwritten_ends_the_run_by_name() {
    let (code, said) = ended_by(|file| file.set_len(10_000).unwrap());
    assert_eq!(code, Some(1), "{said}");
    assert!(
        said.contains("error: the token bin changed while it was used: it has 10000 bytes and had 40000"),
        "{said}"
    );
    assert!(said.contains("bins/train.bin") && said.contains("hint: restore the file"), "{said}");
    let (code, said) = ended_by(|file| file.write_all(&[0xff; 40_000]).unwrap());
    assert_eq!(code, Some(1), "{said}");
    assert!(
        said.contains("error: the token bin changed") || said.contains("error: token id 65535 is beyond"),
        "{said}"
    );
}
