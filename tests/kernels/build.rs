//! Kernel texts under test: those of the project's formats, from the source their plugins are built from, of BF16, and of
//! all update rules.

use std::{env, path::Path};

use altgrad_kernel_kit::{Minifloat, Rule, write, write_updates};

/// Writes `NAME.rs` for each format, by the `src/kernel.rs` of its crate.
macro_rules! formats {
    ($dir:ident: $($name:ident $path:literal)*) => {
        $({
            #[path = $path]
            #[allow(non_snake_case)]
            mod $name;
            println!(concat!("cargo::rerun-if-changed=", $path));
            write::<$name::$name>($dir, stringify!($name));
        })*
    };
}

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let Some(dir) = env::var_os("OUT_DIR") else { panic!("OUT_DIR is not set") };
    let dir = Path::new(&dir);
    formats!(dir:
        E0M7 "../../plugins/formats/e0m7/src/kernel.rs"
        E1M6 "../../plugins/formats/e1m6/src/kernel.rs"
        E2M5 "../../plugins/formats/e2m5/src/kernel.rs"
        E3M4 "../../plugins/formats/e3m4/src/kernel.rs"
        E4M3 "../../plugins/formats/e4m3/src/kernel.rs"
        E5M2 "../../plugins/formats/e5m2/src/kernel.rs"
        E6M1 "../../plugins/formats/e6m1/src/kernel.rs"
        E7M0 "../../plugins/formats/e7m0/src/kernel.rs"
    );
    write::<Minifloat<8, 7>>(dir, "BF16");
    write_updates(dir, "updates", &Rule::ALL);
}
