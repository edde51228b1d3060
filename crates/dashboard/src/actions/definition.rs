//! The definition of a provider that was added at run time: the fields of a `[[provider]]` table.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

use crate::problem::{Answer, Problem};

/// A provider as people define it. Fields mean what they mean in the configuration file.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Definition {
    /// Its id in paths, logs and models.
    pub id: String,
    /// The preset that gives what is left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub preset: Option<String>,
    /// The API shape: `openai-chat`, `openai-responses`, `anthropic-messages` or `gemini`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub format: Option<String>,
    /// What the provider's documentation calls the base URL.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base_url: Option<String>,
    /// The rule pack that reads its failures.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rules: Option<String>,
    /// Whose credential travels upstream: `managed`, `none` or `pass-through`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub auth: Option<String>,
    /// How a key travels: `bearer`, `x-api-key`, `x-goog-api-key`, `header:NAME`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key_header: Option<String>,
    /// Headers that every call carries.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub headers: BTreeMap<String, String>,
    /// Query parameters that every call carries.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub query: BTreeMap<String, String>,
    /// Context lengths in tokens, by model.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub context: BTreeMap<String, u64>,
    /// The HTTP proxy to go through.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub proxy: Option<String>,
    /// A file with certificates that are trusted beside the system's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ca_file: Option<String>,
    /// Whether it may be reached without TLS, and in private networks.
    #[serde(default, skip_serializing_if = "is_false")]
    pub allow_private: bool,
    /// Settings of its own, under their names on the Settings page.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schema(value_type = Object)]
    pub settings: BTreeMap<String, Value>,
}

impl Definition {
    /// The definition as a `[[provider]]` table of the configuration file.
    pub fn to_toml(&self) -> Answer<String> {
        let value = serde_json::to_value(self).map_err(|error| Problem::malformed(error.to_string()))?;
        let Value::Object(mut fields) = value else { return Err(Problem::malformed("not an object")) };
        if let Some(Value::Object(settings)) = fields.remove("settings") {
            for (name, value) in settings {
                if fields.insert(name.clone(), value).is_some() {
                    return Err(Problem::invalid_field("settings", format!("`{name}` is no setting")));
                }
            }
        }
        fields.retain(|_, value| !value.is_null());
        let document = BTreeMap::from([("provider", [fields])]);
        toml::to_string(&document).map_err(|error| Problem::malformed(error.to_string()))
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes fields by reference")]
fn is_false(value: &bool) -> bool {
    !*value
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_definition_is_a_table_of_the_file() {
        let definition: Definition = serde_json::from_str(
            r#"{"id": "a", "preset": "p", "headers": {"x-a": "1"}, "settings": {"patience_s": 5, "rotation": "round-robin"}}"#,
        )
        .expect("a definition");
        expect_test::expect![[r#"
            [[provider]]
            id = "a"
            patience_s = 5
            preset = "p"
            rotation = "round-robin"

            [provider.headers]
            x-a = "1"
        "#]]
        .assert_eq(&definition.to_toml().expect("a table"));
    }

    #[test]
    fn a_setting_cannot_take_the_place_of_a_field() {
        let definition: Definition =
            serde_json::from_str(r#"{"id": "a", "settings": {"id": "b"}}"#).expect("a definition");
        assert!(definition.to_toml().is_err());
    }
}
