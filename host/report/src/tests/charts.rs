//! What a reader of the page can do with its charts.

use tempfile::TempDir;

use super::{compared, elements, rendered, run};

/// The page of two formats with two seeds each.
fn page() -> String {
    let folder = TempDir::new().unwrap();
    let runs = [("a", "none", 1, 2.0), ("b", "none", 2, 2.1), ("c", "E4M3", 1, 2.2), ("d", "E4M3", 2, 2.3)];
    for (name, format, seed, loss) in runs {
        run(folder.path(), name, format, seed, loss);
    }
    let (found, groups, comparison) = compared(folder.path());
    rendered("t", &found, &groups, &comparison)
}

#[test]
fn every_drawn_chart_has_a_button_for_its_picture() {
    let page = page();
    let cards = elements(&page, "<figure class=\"card", "</figure>");
    assert!(cards.len() > 5);
    for card in cards {
        let (is_drawn, has_button) = (card.contains("class=\"plot"), card.contains("data-svg=\""));
        assert_eq!(is_drawn, has_button, "{card:.200}");
    }
    // The policy refuses handlers in attributes: the page's script listens.
    assert!(!page.contains(" onclick=") && page.contains("const pictureOf"));
}

#[test]
fn the_page_has_the_colours_and_lines_of_every_key() {
    let page = page();
    let data = elements(&page, "<script id=\"data\" type=\"application/json\">", "</script>")[0];
    let data: serde_json::Value = serde_json::from_str(data).unwrap();
    let looks = data["looks"].as_object().unwrap();
    for key in elements(&page, "<select id=\"colour\">", "</select>")[0].split("</option>") {
        let key = key.rsplit('>').next().unwrap();
        assert!(key.is_empty() || looks.contains_key(key), "{key}");
    }
    let format = &looks["format"];
    assert_eq!(format["colours"].as_array().unwrap().len(), 2);
    assert_ne!(format["colours"][0]["ink"], format["colours"][1]["ink"]);
    assert_ne!(format["lines"][0]["dash"], format["lines"][1]["dash"]);
    assert_ne!(format["lines"][0]["groups"], format["lines"][1]["groups"]);
}
