//! Kernel texts without the parts that differ between two runs of cubecl on the same source.
//!
//! Two things do, and neither has a meaning. The last eight digits of an entry function's name hash a `TypeId`, which
//! depends on the compiler and on the crate. In CUDA text the shared arrays of a kernel take their names in the order
//! of a hash table, which is seeded anew in each process. Everything else is kept, so any other difference is one.

use std::collections::BTreeMap;

/// Digits at the end of an entry function's name, with the underscore before them.
const SUFFIX: usize = 9;

/// A table and its texts in one, or nothing: they do not belong together.
#[must_use]
pub fn canonical(table: &str, deflated: &[u8]) -> Option<String> {
    let mut all = String::new();
    for line in table.lines() {
        let Some((head, tail)) = line.split_once("entry: \"") else {
            all.push_str(line);
            all.push('\n');
            continue;
        };
        let (entry, tail) = tail.split_once("\", deflated: part(")?;
        let (range, tail) = tail.split_once(')')?;
        let (start, len) = range.split_once(", ")?;
        let part = deflated.get(start.parse().ok()?..)?.get(..len.parse().ok()?)?;
        let source = String::from_utf8(miniz_oxide::inflate::decompress_to_vec(part).ok()?).ok()?;
        let short = entry.get(..entry.len().checked_sub(SUFFIX)?)?;
        all.push_str(&format!("{head}entry: {short}{tail}\n{}\n", text(&source, entry, short)));
    }
    Some(all)
}

/// A text with the short name of its entry, and its shared arrays named in the order of their declarations.
fn text(source: &str, entry: &str, short: &str) -> String {
    let arrays: Vec<&str> = source.lines().filter_map(array).collect();
    let mut ordered = arrays.clone();
    ordered.sort_unstable_by_key(|name| (name.len(), *name));
    let mut names: BTreeMap<&str, &str> = arrays.into_iter().zip(ordered).collect();
    names.insert(entry, short);
    let separates = |c: char| !c.is_ascii_alphanumeric() && c != '_';
    let words = source.split_inclusive(separates).map(|piece| {
        let word = piece.trim_end_matches(separates);
        format!("{}{}", names.get(word).unwrap_or(&word), &piece[word.len()..])
    });
    words.collect()
}

/// The name a line declares, if it is a shared array's: `array<T, N> * const NAME = reinterpret_cast<array<..`.
fn array(line: &str) -> Option<&str> {
    let (name, value) = line.strip_prefix("array<")?.split_once("> * const ")?.1.split_once(" = ")?;
    value.starts_with("reinterpret_cast<array<").then_some(name)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    const TEXT: &str = "void step_n_4_0123abcd(int v1) {\n\
        array<uint32_t, 4> * const v9 = reinterpret_cast<array<uint32_t, 4> *>(&v3[0]);\n\
        array<float, 4> * const v10 = reinterpret_cast<array<float, 4> *>(&v3[16]);\n\
        int v5 = (*v9)[v1] + (*v10)[7];\n}\n";

    fn canonical_of(source: &str, entry: &str, rest: &str) -> Option<String> {
        let deflated = miniz_oxide::deflate::compress_to_vec(source.as_bytes(), 1);
        let line = format!("Text {{ entry: \"{entry}\", deflated: part(0, {}), {rest} }}", deflated.len());
        canonical(&line, &deflated)
    }

    #[test]
    fn names_of_an_entry_and_of_shared_arrays_do_not_count() {
        let other = TEXT
            .replace("0123abcd", "89abcdef")
            .replace("v10", "v")
            .replace("v9", "v10")
            .replace("*v)", "*v9)");
        let other = other.replace("const v ", "const v9 ");
        assert_ne!(other, TEXT);
        let first = canonical_of(TEXT, "step_n_4_0123abcd", "units: 1");
        assert_eq!(first, canonical_of(&other, "step_n_4_89abcdef", "units: 1"));
        assert!(first.unwrap().contains("(*v9)[v1] + (*v10)[7]"));
    }

    #[test]
    fn everything_else_counts() {
        let first = canonical_of(TEXT, "step_n_4_0123abcd", "units: 1").unwrap();
        let changed = [
            ("[7]", "[8]"),
            ("v1)", "v2)"),
            ("(*v9)[v1]", "(*v10)[v1]"),
            ("&v3[16]", "&v3[32]"),
            ("step", "stop"),
        ];
        for (from, to) in changed {
            let entry = "step_n_4_0123abcd".replace(from, to);
            assert_ne!(canonical_of(&TEXT.replace(from, to), &entry, "units: 1").unwrap(), first, "{from}");
        }
        assert_ne!(canonical_of(TEXT, "step_n_4_0123abcd", "units: 2").unwrap(), first);
    }

    #[test]
    fn a_table_without_its_texts_is_none() {
        assert_eq!(canonical("Text { entry: \"step_n_4_0123abcd\", deflated: part(0, 9), x }", &[]), None);
    }
}
