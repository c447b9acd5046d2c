//! Records to text: the raw layouts of the data sets.
//!
//! EURLEX57K: `"\n".join([header, recitals] + main_body)`, as its loader on the Hugging Face hub joins them; title by
//! request, attachments never. MultiEURLEX: `text` by language. `eurlex` and plain JSON lines: `text`.

use std::{collections::BTreeMap, fmt};

use serde::{
    Deserialize, Deserializer,
    de::{self, DeserializeOwned, MapAccess, Visitor},
};

use super::{
    skip::Reason,
    sources::{self, Dataset},
};

/// The split of a document.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Split {
    Train,
    Val,
    Test,
}

impl Split {
    pub(super) const ALL: [Self; 3] = [Self::Train, Self::Val, Self::Test];

    /// The name of its bin.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Train => "train",
            Self::Val => "val",
            Self::Test => "test",
        }
    }

    /// The split that a word names, as data sets name them.
    pub(super) fn named(word: &str) -> Option<Self> {
        match word {
            "train" => Some(Self::Train),
            "dev" | "val" | "valid" | "validation" => Some(Self::Val),
            "test" => Some(Self::Test),
            _ => None,
        }
    }

    /// The split that a path names by its file or a folder: `train.jsonl`, `dataset/dev/32014R0727.json`.
    pub(super) fn of_path(path: &str) -> Option<Self> {
        path.rsplit('/').find_map(|part| Self::named(part.split('.').next()?))
    }
}

/// The fields of a record that are used.
#[derive(Debug, Clone)]
pub(super) struct Layout {
    pub(super) dataset: Dataset,
    pub(super) language: Option<String>,
    pub(super) title: bool,
}

/// A record's text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Document {
    pub(super) text: String,
    /// The split that the record itself names.
    pub(super) split: Option<Split>,
    /// The act's number.
    pub(super) id: Option<String>,
}

#[derive(Deserialize)]
struct Eurlex57k {
    celex_id: Option<String>,
    title: Option<String>,
    header: Option<String>,
    recitals: Option<String>,
    main_body: Option<Vec<String>>,
}

#[derive(Deserialize)]
struct Texts {
    celex_id: Option<String>,
    text: Option<Text>,
    data_type: Option<String>,
}

/// `text`: itself, or by language.
enum Text {
    One(String),
    Many(BTreeMap<String, Option<String>>),
}

impl Layout {
    /// The layouts of the published data sets; of languages English first.
    pub(super) fn published() -> impl Iterator<Item = Self> {
        let of = |dataset, language: Option<&str>| Self {
            dataset,
            language: language.map(String::from),
            title: false,
        };
        let single = [Dataset::Eurlex, Dataset::Eurlex57k].into_iter().map(move |dataset| of(dataset, None));
        let languages = ["en"].into_iter().chain(sources::LANGUAGES);
        single.chain(languages.map(move |language| of(Dataset::MultiEurlex, Some(language))))
    }

    /// The document of a record.
    ///
    /// # Errors
    /// The reason why there is none.
    pub(super) fn document(&self, json: &[u8]) -> Result<Document, Reason> {
        let json = std::str::from_utf8(json).map_err(|error| Reason::NotUtf8(error.valid_up_to()))?;
        let document = match self.dataset {
            Dataset::Eurlex57k => self.eurlex57k(parse(json)?)?,
            Dataset::Eurlex | Dataset::MultiEurlex | Dataset::Text => self.texts(parse(json)?)?,
        };
        if document.text.trim().is_empty() { Err(Reason::Empty) } else { Ok(document) }
    }

    fn eurlex57k(&self, act: Eurlex57k) -> Result<Document, Reason> {
        let mut parts = Vec::new();
        if self.title {
            parts.push(act.title.ok_or(Reason::Missing("title"))?.trim_end().to_string());
        }
        parts.push(act.header.ok_or(Reason::Missing("header"))?);
        parts.push(act.recitals.ok_or(Reason::Missing("recitals"))?);
        parts.extend(act.main_body.ok_or(Reason::Missing("main_body"))?);
        Ok(Document { text: parts.join("\n"), split: None, id: act.celex_id })
    }

    fn texts(&self, record: Texts) -> Result<Document, Reason> {
        let text = match (record.text.ok_or(Reason::Missing("text"))?, &self.language) {
            (Text::One(text), None) => text,
            (Text::Many(mut texts), Some(language)) => {
                texts.remove(language).flatten().ok_or_else(|| Reason::Language(language.clone()))?
            }
            (Text::One(_), Some(_)) => {
                return Err(Reason::Malformed("`text` is one text, not a table by language".into()));
            }
            (Text::Many(_), None) => {
                let what = "`text` is a table by language, as in the data set multi_eurlex";
                return Err(Reason::Malformed(what.into()));
            }
        };
        let split = record.data_type.as_deref().and_then(Split::named);
        Ok(Document { text, split, id: record.celex_id })
    }
}

fn parse<T: DeserializeOwned>(json: &str) -> Result<T, Reason> {
    serde_json::from_str(json.trim_start_matches('\u{feff}'))
        .map_err(|error| Reason::Malformed(error.to_string()))
}

impl<'de> Deserialize<'de> for Text {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Either;
        impl<'de> Visitor<'de> for Either {
            type Value = Text;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a text, or texts by language")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Text, E> {
                Ok(Text::One(text.to_string()))
            }

            fn visit_string<E: de::Error>(self, text: String) -> Result<Text, E> {
                Ok(Text::One(text))
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Text, A::Error> {
                let mut texts = BTreeMap::new();
                while let Some((language, text)) = map.next_entry()? {
                    texts.insert(language, text);
                }
                Ok(Text::Many(texts))
            }
        }
        deserializer.deserialize_any(Either)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn layout(dataset: Dataset, language: Option<&str>) -> Layout {
        Layout { dataset, language: language.map(String::from), title: false }
    }

    fn text(layout: &Layout, json: &str) -> Result<String, Reason> {
        layout.document(json.as_bytes()).map(|document| document.text)
    }

    #[test]
    fn eurlex57k_joins_header_recitals_and_body() {
        let act = r#"{"celex_id": "3", "title": "T\n", "header": "H", "recitals": "R", "main_body": ["a", "b"], "attachments": "X"}"#;
        let mut plain = layout(Dataset::Eurlex57k, None);
        assert_eq!(text(&plain, act).unwrap(), "H\nR\na\nb");
        plain.title = true;
        assert_eq!(text(&plain, act).unwrap(), "T\nH\nR\na\nb");
    }

    #[test]
    fn what_a_record_lacks_is_named() {
        let acts = layout(Dataset::Eurlex57k, None);
        let cases = [
            (r#"{"header": "H", "main_body": []}"#, Reason::Missing("recitals")),
            (r#"{"header": "H", "recitals": null, "main_body": []}"#, Reason::Missing("recitals")),
            (r#"{"header": " ", "recitals": "\n", "main_body": []}"#, Reason::Empty),
        ];
        for (json, reason) in cases {
            assert_eq!(text(&acts, json), Err(reason), "{json}");
        }
        for json in ["", "{", "[]", "7", r#"{"header": 7}"#, r#"{"header": "\ud800"}"#, &"[".repeat(100_000)]
        {
            assert!(matches!(text(&acts, json), Err(Reason::Malformed(_))), "{json:.20}");
        }
        assert_eq!(acts.document(b"{\"header\": \"\xff\"}"), Err(Reason::NotUtf8(12)));
    }

    #[test]
    fn texts_are_taken_by_language() {
        let act =
            r#"{"celex_id": "3", "text": {"en": "law", "de": null}, "eurovoc_concepts": {"level_1": ["1"]}}"#;
        assert_eq!(text(&layout(Dataset::MultiEurlex, Some("en")), act).unwrap(), "law");
        for language in ["de", "sv"] {
            let refused = text(&layout(Dataset::MultiEurlex, Some(language)), act);
            assert_eq!(refused, Err(Reason::Language(language.into())));
        }
        assert!(matches!(text(&layout(Dataset::Eurlex, None), act), Err(Reason::Malformed(_))));
    }

    #[test]
    fn a_record_may_name_its_split() {
        let eurlex = layout(Dataset::Eurlex, None);
        let document = eurlex.document(br#"{"text": "law", "labels": [1], "data_type": "dev"}"#).unwrap();
        assert_eq!(document, Document { text: "law".into(), split: Some(Split::Val), id: None });
    }

    #[test]
    fn paths_name_splits() {
        assert_eq!(Split::of_path("dataset/train/3.json"), Some(Split::Train));
        assert_eq!(Split::of_path("train/dev.jsonl.gz"), Some(Split::Val));
        assert_eq!(Split::of_path("eurlex.jsonl"), None);
    }
}
