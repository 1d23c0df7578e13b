//! The list of Anthropic's models.

use serde_json::Value;
use windlass_core::llm_driver_registry::DiscoveredModel;

use crate::drivers::ModelPage;

pub(crate) fn page(page: &Value) -> ModelPage {
    let text = |value: &Value| value.as_str().map(str::to_owned);
    let models = page["data"].as_array().into_iter().flatten();
    let models = models.filter_map(|model| {
        Some(DiscoveredModel {
            id: text(&model["id"])?,
            display_name: text(&model["display_name"]),
        })
    });
    let more = page["has_more"] == true;
    ModelPage {
        models: models.collect(),
        next: text(&page["last_id"])
            .filter(|_| more)
            .map(|last| ("after_id", last)),
    }
}
