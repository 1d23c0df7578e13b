//! The list of Anthropic's models.

use serde_json::Value;

use crate::drivers::ModelPage;

pub(crate) fn page(page: &Value) -> ModelPage {
    let last = page["last_id"].as_str();
    let last = last.filter(|_| page["has_more"] == true);
    ModelPage {
        next: last.map(|last| ("after_id", last.to_owned())),
        ..ModelPage::read(page, "data", "id", "display_name")
    }
}
