//! CPU features: checks that this machine has those that a library was compiled for.

/// The features of a list, comma separated, that this machine lacks.
pub(crate) fn missing(features: &str) -> Vec<&str> {
    features.split(',').filter(|feature| !feature.is_empty() && cpu_has(feature) == Some(false)).collect()
}

/// Whether this CPU has a feature that a compiler may assume; `None` for a feature that stable Rust cannot detect,
/// which is not checked: AMX, AVX10, APX.
fn cpu_has(feature: &str) -> Option<bool> {
    macro_rules! detect {
        ($($name:tt),+) => {
            match feature {
                $($name => Some(std::is_x86_feature_detected!($name)),)+
                _ => None,
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
        "avxvnniint8",
        "avxvnniint16",
        "avxifma",
        "avxneconvert",
        "sha512",
        "sm3",
        "sm4",
        "kl",
        "widekl",
        "rtm",
        "ermsb",
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
    return None;
}

#[cfg(all(test, target_arch = "x86_64"))]
mod tests {
    use super::*;

    #[test]
    fn the_names_of_the_header_for_c_are_known() {
        let header = include_str!("../../../plugin-api/include/altgrad_plugin.h");
        let named = header.split("ALTGRAD_CPU_(__").skip(1).filter_map(|rest| rest.split('"').nth(1));
        let unknown: Vec<&str> = named.clone().filter(|name| cpu_has(name).is_none()).collect();
        assert!(named.count() > 40 && unknown.is_empty(), "{unknown:?}");
    }
}
