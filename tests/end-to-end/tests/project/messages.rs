//! The form of the errors and hints of the host and of shipped plugins: one sentence, without a capital or a full stop
//! around it. Their words are in the snapshots of the commands that print them.

use super::sources::files_named;

/// A string literal of code.
struct Literal {
    /// Offset of its first quote.
    start: usize,
    text: String,
}

/// The string literals of a source, without those of comments. A line that goes on in the next is one text.
fn literals(source: &str) -> Vec<Literal> {
    let bytes = source.as_bytes();
    let (mut found, mut at) = (Vec::new(), 0);
    while at < bytes.len() {
        match bytes[at] {
            b'/' if bytes[at..].starts_with(b"//") => {
                at += source[at..].find('\n').unwrap_or(source.len() - at);
            }
            // The character of a quote; other apostrophes are of lifetimes or characters without quotes.
            b'\'' if bytes[at..].starts_with(b"'\"'") => at += 3,
            b'\'' if bytes[at..].starts_with(b"'\\\"'") => at += 4,
            b'r' if bytes[at..].starts_with(b"r#\"") => {
                let len = source[at + 3..].find("\"#").unwrap_or(0);
                at += 3 + len + 2;
            }
            b'"' => {
                let end = end_of(bytes, at + 1);
                found.push(Literal { start: at, text: unescaped(&source[at + 1..end]) });
                at = end + 1;
            }
            _ => at += 1,
        }
    }
    found
}

/// The offset of the quote that ends a literal.
fn end_of(bytes: &[u8], mut at: usize) -> usize {
    while at < bytes.len() && bytes[at] != b'"' {
        at += if bytes[at] == b'\\' { 2 } else { 1 };
    }
    at
}

/// One line: escaped line ends and the spaces behind them are gone.
fn unescaped(text: &str) -> String {
    let mut lines = text.split("\\\n");
    let first = lines.next().unwrap_or_default().to_string();
    let joined = lines.fold(first, |text, line| text + line.trim_start());
    joined.replace("\\\"", "\"").replace('\n', " ")
}

/// True if the literal that follows is the text of an error or of a hint.
fn is_message(before: &str) -> bool {
    let call = before.trim_end().trim_end_matches("format!(").trim_end();
    [".hint(", "config(", "run(", "plugin(", "refuse(", "PluginError::new("]
        .iter()
        .any(|name| call.ends_with(name))
}

/// What is wrong with the form of a message: [Rust's API guidelines](https://rust-lang.github.io/api-guidelines/),
/// C-GOOD-ERR.
fn fault(text: &str) -> Option<&'static str> {
    let mut letters = text.chars();
    let first = letters.next().unwrap_or(' ');
    // Names such as `NaN`, `TOML` or `E4M3` keep their capitals.
    let is_name = text.split(' ').next().is_some_and(|word| word.chars().skip(1).any(|c| !c.is_lowercase()));
    if text.trim() != text || text.contains("  ") {
        Some("has superfluous spaces")
    } else if first.is_uppercase() && letters.next().is_some() && !is_name {
        Some("begins with a capital")
    } else if text.ends_with(['.', '!']) && !text.ends_with("..") {
        Some("ends with a full stop")
    } else {
        None
    }
}

/// True if a file has messages: it is no test, kernel or text of the generated corpus.
fn is_code(path: &str) -> bool {
    let of_program = path.starts_with("host/") || path.starts_with("plugins/");
    let others = [
        "/tests/",
        "/tests.rs",
        "/testing.rs",
        "/benches/",
        "kernel_texts",
        "kernel-generator",
        "host/synthetic-corpus",
    ];
    of_program && path.contains("/src/") && !others.iter().any(|part| path.contains(part))
}

#[test]
fn errors_and_hints_are_sentences_without_capital_and_full_stop() {
    let mut messages = 0;
    let mut faults = Vec::new();
    for (path, source) in files_named(".rs").into_iter().filter(|(path, _)| is_code(path)) {
        let code = source.split("#[cfg(test)]").next().unwrap_or_default();
        for literal in literals(code).iter().filter(|literal| is_message(&code[..literal.start])) {
            messages += 1;
            faults.extend(fault(&literal.text).map(|fault| format!("{path}: {:?} {fault}", literal.text)));
        }
    }
    assert!(messages > 300, "{messages} messages found");
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn a_literal_is_found_with_its_call() {
    let source = r#"
        // "not this one"
        let quote = '"';
        Err(Diagnostic::config(format!("`{key}` must be \"a\" \
            number")).hint("give one"))
    "#;
    let found = literals(source);
    let texts: Vec<&str> = found.iter().map(|literal| literal.text.as_str()).collect();
    assert_eq!(texts, ["`{key}` must be \"a\" number", "give one"]);
    assert!(found.iter().all(|literal| is_message(&source[..literal.start])));
    assert!(!is_message("let text = "));
}

#[test]
fn a_message_of_another_form_is_a_fault() {
    for good in
        ["`lr` must be positive, found 0", "NaN is no rate", "E4M3 has no infinity", "give one of a, b, .."]
    {
        assert_eq!(fault(good), None, "{good}");
    }
    for bad in ["The rate is wrong", "give one.", "two  spaces", " before"] {
        assert!(fault(bad).is_some(), "{bad}");
    }
}
