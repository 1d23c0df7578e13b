//! The list of Google's models.

use serde_json::Value;

use crate::drivers::ModelPage;

pub(crate) fn page(page: &Value) -> ModelPage {
    let token = page["nextPageToken"].as_str();
    let token = token.filter(|token| !token.is_empty());
    let mut page = ModelPage {
        next: token.map(|token| ("pageToken", token.to_owned())),
        ..ModelPage::read(page, "models", "name", "displayName")
    };
    for model in &mut page.models {
        if let Some(id) = model.id.strip_prefix("models/") {
            model.id = id.to_owned();
        }
    }
    page
}
