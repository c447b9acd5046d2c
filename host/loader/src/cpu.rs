//! CPU features: checks that this machine has those that a library was compiled for.

/// The features of a list, comma separated, that this machine lacks.
pub(crate) fn missing(features: &str) -> Vec<&str> {
    features.split(',').filter(|feature| !feature.is_empty() && !cpu_has(feature)).collect()
}

/// True if this CPU has a feature that a compiler may assume. Features outside this list are not
/// checked.
fn cpu_has(feature: &str) -> bool {
    macro_rules! detect {
        ($($name:tt),+) => {
            match feature {
                $($name => std::is_x86_feature_detected!($name),)+
                _ => true,
            }
        };
    }
    #[cfg(target_arch = "x86_64")]
    return detect!(
        "sse",
        "sse2",
        "sse3",
        "sse4a",
        "aes",
        "pclmulqdq",
        "sha",
        "adx",
        "rdrand",
        "rdseed",
        "movbe",
        "tbm",
        "gfni",
        "vaes",
        "vpclmulqdq",
        "xsave",
        "xsavec",
        "xsaveopt",
        "xsaves",
        "fxsr",
        "cmpxchg16b",
        "avxvnni",
        "avx512ifma",
        "avx512vbmi",
        "avx512vbmi2",
        "avx512bitalg",
        "avx512vpopcntdq",
        "avx512vp2intersect",
        "avx512fp16",
        "ssse3",
        "sse4.1",
        "sse4.2",
        "popcnt",
        "avx",
        "avx2",
        "fma",
        "f16c",
        "bmi1",
        "bmi2",
        "lzcnt",
        "avx512f",
        "avx512bw",
        "avx512cd",
        "avx512dq",
        "avx512vl",
        "avx512vnni",
        "avx512bf16"
    );
    #[cfg(not(target_arch = "x86_64"))]
    return true;
}
