//! The JSON Schema of `rudy.toml`, generated from its structs.

use rudy_config::Table;

use super::Config;

/// Returns the JSON Schema of `rudy.toml`, as in `docs/rudy.schema.json`.
#[must_use]
pub fn json_schema() -> String {
    let schema = rudy_config::json_schema("rudy.toml", Config::TABLE);
    let mut text = serde_json::to_string_pretty(&schema).unwrap_or_default();
    text.push('\n');
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/rudy.schema.json");

    #[test]
    fn the_committed_schema_is_up_to_date() {
        let schema = json_schema();
        if std::env::var_os("RUDY_WRITE_SCHEMA").is_some() {
            std::fs::write(FILE, &schema).unwrap();
        }
        let committed = std::fs::read_to_string(FILE).unwrap_or_default();
        assert!(
            committed == schema,
            "docs/rudy.schema.json is stale: RUDY_WRITE_SCHEMA=1 cargo test -p rudy-server schema"
        );
    }
}
