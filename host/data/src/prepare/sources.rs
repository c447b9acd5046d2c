//! The data sets by name: addresses, hashes of their archives, and licences.

/// A data set that can be prepared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dataset {
    /// 65,000 English acts of MultiEURLEX, one text each.
    Eurlex,
    /// EURLEX57K: 57,000 English acts in parts.
    Eurlex57k,
    /// MultiEURLEX: 65,000 acts in up to 23 languages; `--lang` selects one.
    MultiEurlex,
    /// Your own data: text files, or JSON lines with a field `text`.
    Text,
}

/// A published archive.
#[derive(Debug, Clone)]
pub struct Archive {
    /// File name.
    pub file: &'static str,
    /// The address of the publisher.
    pub url: &'static str,
    /// Its path at the Hugging Face hub, if it is there.
    pub hub: Option<&'static str>,
    /// Bytes.
    pub bytes: u64,
    /// SHA-256, as published with the data set's loader.
    pub sha256: &'static str,
}

const EURLEX: Archive = Archive {
    file: "eurlex.tar.gz",
    url: "https://zenodo.org/record/5532997/files/eurlex.tar.gz",
    hub: None,
    bytes: 125_413_277,
    sha256: "82376ff55c3812632d8a21ad0d7e515e2e7ec6431ca7673a454cdd41a3a7bf46",
};
const EURLEX57K: Archive = Archive {
    file: "dataset.zip",
    url: "https://archive.org/download/EURLEX57K/dataset.zip",
    hub: None,
    bytes: 50_289_403,
    sha256: "dc6830ce8ea49aea049989c4a8253b12d0fb3665fc336d830cb07b9bd28c0f92",
};
const MULTI_EURLEX: Archive = Archive {
    file: "multi_eurlex.tar.gz",
    url: "https://zenodo.org/record/5363165/files/multi_eurlex.tar.gz",
    hub: Some("datasets/coastalcph/multi_eurlex/resolve/main/data/multi_eurlex.tar.gz"),
    bytes: 2_770_050_147,
    sha256: "3a2195bc01c7aea0e302bc7af94f2f55f0c15cdeabfe4e086c083196069a2e83",
};

/// The languages of MultiEURLEX.
pub const LANGUAGES: [&str; 23] = [
    "bg", "cs", "da", "de", "el", "en", "es", "et", "fi", "fr", "hr", "hu", "it", "lt", "lv", "mt", "nl",
    "pl", "pt", "ro", "sk", "sl", "sv",
];

impl Dataset {
    /// Every data set, in the order of the documentation.
    pub const ALL: [Self; 4] = [Self::Eurlex, Self::Eurlex57k, Self::MultiEurlex, Self::Text];

    /// One line for the command line's help.
    #[must_use]
    pub fn summary(self) -> &'static str {
        match self {
            Self::Eurlex => "65,000 English acts of MultiEURLEX, one text each",
            Self::Eurlex57k => "EURLEX57K: 57,000 English acts in parts",
            Self::MultiEurlex => "MultiEURLEX: 65,000 acts in up to 23 languages; `--lang` selects one",
            Self::Text => "Your own data: text files, or JSON lines with a field `text`",
        }
    }

    /// Its name on the command line.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Eurlex => "eurlex",
            Self::Eurlex57k => "eurlex57k",
            Self::MultiEurlex => "multi_eurlex",
            Self::Text => "text",
        }
    }

    /// The published archive; `None` for the user's own text.
    #[must_use]
    pub fn archive(self) -> Option<Archive> {
        match self {
            Self::Eurlex => Some(EURLEX),
            Self::Eurlex57k => Some(EURLEX57K),
            Self::MultiEurlex => Some(MULTI_EURLEX),
            Self::Text => None,
        }
    }

    /// The attribution that stays with the text.
    #[must_use]
    pub fn licence(self) -> Option<&'static str> {
        let eu = "(c) European Union, https://eur-lex.europa.eu; reuse under Decision 2011/833/EU";
        (self != Self::Text).then_some(eu)
    }
}
