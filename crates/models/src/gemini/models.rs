//! The list of Google's models.

use serde_json::Value;
use windlass_core::llm_driver_registry::DiscoveredModel;

use crate::drivers::ModelPage;

pub(crate) fn page(page: &Value) -> ModelPage {
    let text = |value: &Value| value.as_str().map(str::to_owned);
    let models = page["models"].as_array().into_iter().flatten();
    let models = models.filter_map(|model| {
        let name = model["name"].as_str()?;
        Some(DiscoveredModel {
            id: name.strip_prefix("models/").unwrap_or(name).to_owned(),
            display_name: text(&model["displayName"]),
        })
    });
    ModelPage {
        models: models.collect(),
        next: text(&page["nextPageToken"])
            .filter(|token| !token.is_empty())
            .map(|token| ("pageToken", token)),
    }
}
