//! One line of a cast as a TOML document of the same length, so that places in the one are places in the other.

/// The format, if the text is nothing but its name, in quotes or not.
pub(super) fn format_alone(text: &str) -> Option<&str> {
    let text = text.trim();
    let name = text.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')).unwrap_or(text);
    // Options follow a colon, which no key of TOML has.
    let (id, options) = name.split_once(':').unwrap_or((name, ""));
    let all = |text: &str, others: &str| {
        text.chars().all(|letter| letter.is_ascii_alphanumeric() || others.contains(letter))
    };
    (!id.is_empty() && all(id, "_-.") && all(options, "_-.:=,+")).then_some(name)
}

/// The text with its outer braces blank and commas outside of tables, arrays and strings as line ends.
pub(super) fn as_document(text: &str) -> String {
    let trimmed = text.trim();
    let in_braces = trimmed.starts_with('{') && trimmed.ends_with('}');
    let base = usize::from(in_braces);
    let (mut depth, mut quote, mut escaped, mut comment) = (0usize, None, false, false);
    let mut document = String::with_capacity(text.len());
    for letter in text.chars() {
        let mut written = letter;
        if letter == '\n' {
            (quote, escaped, comment) = (None, false, false);
        } else if comment || escaped {
            escaped = false;
        } else if let Some(open) = quote {
            match letter {
                '\\' if open == '"' => escaped = true,
                _ if letter == open => quote = None,
                _ => {}
            }
        } else {
            match letter {
                '"' | '\'' => quote = Some(letter),
                '#' => comment = true,
                '{' | '[' => {
                    if depth < base {
                        written = ' ';
                    }
                    depth += 1;
                }
                '}' | ']' => {
                    depth = depth.saturating_sub(1);
                    if depth < base {
                        written = ' ';
                    }
                }
                ',' if depth == base => written = '\n',
                _ => {}
            }
        }
        document.push(written);
    }
    document
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commas_between_keys_become_lines_and_nothing_else_does() {
        for (text, document) in [
            ("a = 1, b = [1, 2], c = { d = 1, e = 2 }", "a = 1\n b = [1, 2]\n c = { d = 1, e = 2 }"),
            (" { a = '1, 2', b = \"x\\\", y\" } ", "   a = '1, 2'\n b = \"x\\\", y\"   "),
            ("a = 1 # x, y\nb = 2", "a = 1 # x, y\nb = 2"),
            ("a = 1,,", "a = 1\n\n"),
            ("}", "}"),
        ] {
            assert_eq!(as_document(text), document);
            assert_eq!(as_document(text).len(), text.len());
        }
    }

    #[test]
    fn a_name_alone_is_a_format() {
        assert_eq!(format_alone(" E4M3:ieee "), Some("E4M3:ieee"));
        assert_eq!(format_alone("\"E4M3\""), Some("E4M3"));
        for name in ["INTZ:bits=5", "INTZ:bits=5,zero_point=false", "CODEBOOK4:deviations=2.5e+1"] {
            assert_eq!(format_alone(name), Some(name));
        }
        assert_eq!(
            (format_alone("format = 1"), format_alone(""), format_alone("\"E4M3")),
            (None, None, None)
        );
    }
}
