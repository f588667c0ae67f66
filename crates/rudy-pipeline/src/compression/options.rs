//! The configuration of compression.

use std::fmt;

use rudy_config::{Int, OneOrMany, count, inline_schema, marker, two_lines};
use rudy_message::semantics::media_type;
use rudy_message::semantics::negotiation::Coding;
use rudy_units::{Size, as_size};
use schemars::{JsonSchema, json_schema};
use serde::Deserialize;
use serde::de::{Deserializer, Error, Visitor};

/// The value of a key `compression`: `true`, `false` or a table.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct CompressionSetting(pub Option<Compression>);

/// Compression while responses are sent.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Compression {
    /// Codings to use: `br`, `zstd` and `gzip`. If a client accepts several with the same weight, the first one is used. The
    /// default is `["br", "zstd", "gzip"]` for files, whose results are kept, and `["zstd", "br", "gzip"]` for other responses,
    /// where Zstandard uses less CPU.
    #[schemars(example = ["zstd", "gzip"])]
    pub codings: Option<Codings>,
    /// Media types to compress, as in `["text/*", "application/json"]`. `*` is all. The default is text and the few binary
    /// formats that are not compressed themselves.
    #[schemars(extend("examples" = [["text/*", "application/json"]]))]
    pub media_types: Option<MediaTypes>,
    /// Compression level for all codings, from 1 (fast) to 9 (small). Brotli uses at most 6. The default is 5 for files, and 4
    /// for other responses.
    #[schemars(example = 5)]
    pub level: Option<Level>,
    /// Compression level of gzip. The default is `level`.
    #[schemars(example = 6)]
    pub gzip: Option<Level>,
    /// Compression level of Brotli. The default is `level`.
    #[schemars(example = 4)]
    pub br: Option<Level>,
    /// Compression level of Zstandard. The default is `level`.
    #[schemars(example = 3)]
    pub zstd: Option<Level>,
    /// Minimum size of a file or response to compress. Compression saves nothing when it fits in one packet. A response of
    /// unknown size is compressed.
    #[serde(with = "as_size")]
    #[schemars(with = "Size")]
    pub size_min: u64,
    /// Maximum size of a file or response to compress. A larger one is sent uncompressed. A response of unknown size is
    /// compressed.
    #[serde(with = "as_size")]
    #[schemars(with = "Size")]
    pub size_max: u64,
    /// Maximum number of responses that are compressed at the same time while they are sent. Further ones are sent
    /// uncompressed. Files up to `cache_max_file_size` do not count, and half of this number is the maximum for live
    /// streams. Each can use up to 5 MiB of memory (Brotli).
    #[serde(deserialize_with = "count::<_, 0, 10_000>")]
    #[schemars(with = "Int<0, 10_000>")]
    pub streams: usize,
}

/// Maximum level: above it, Brotli and Zstandard take tens of times as long to save a few percent.
const LEVEL_MAX: u64 = 9;

/// A compression level.
pub(super) type Level = Int<1, LEVEL_MAX>;

/// What is compressed: the defaults depend on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Of {
    /// Files, whose results are kept.
    Files,
    /// Other responses, which are compressed each time unless they are stored.
    Responses,
}

impl Compression {
    /// Returns the level of a coding.
    #[must_use]
    pub fn level(&self, coding: Coding, of: Of) -> u8 {
        let own = match coding {
            Coding::Gzip => self.gzip,
            Coding::Brotli => self.br,
            Coding::Zstd => self.zstd,
            Coding::Identity => None,
        };
        let usual = match of {
            Of::Files => Int(5),
            Of::Responses => Int(4),
        };
        u8::try_from(own.or(self.level).unwrap_or(usual).0).unwrap_or(u8::MAX)
    }

    /// Returns the codings, the preferred one first.
    #[must_use]
    pub fn codings(&self, of: Of) -> &[Coding] {
        match (&self.codings, of) {
            (Some(codings), _) => &codings.0,
            (None, Of::Files) => &Coding::COMPRESSED,
            (None, Of::Responses) => &[Coding::Zstd, Coding::Brotli, Coding::Gzip],
        }
    }

    /// Whether to compress a body of this size, if known, and media type.
    #[must_use]
    pub fn includes(&self, bytes: Option<u64>, media_type: &[u8]) -> bool {
        bytes.is_none_or(|bytes| (self.size_min..=self.size_max).contains(&bytes))
            && match &self.media_types {
                Some(list) => list.contain(media_type),
                None => media_type::is_compressible(media_type),
            }
    }

    /// Describes the settings for `rudy check --explain`.
    #[must_use]
    pub fn describe(&self, of: Of) -> String {
        let level = |coding: &Coding| format!("{} (level {})", coding.name(), self.level(*coding, of));
        let codings: Vec<_> = self.codings(of).iter().map(level).collect();
        let types = self.media_types.as_ref().map_or_else(|| "text".to_owned(), |types| types.0.join(", "));
        format!("{} for {types} from {} bytes", codings.join(", "), self.size_min)
    }
}

impl Default for Compression {
    fn default() -> Self {
        // 64 encoders use at most 320 MiB, and only if the results do not fit into the cache and the clients are slow.
        Self {
            codings: None,
            media_types: None,
            level: None,
            gzip: None,
            br: None,
            zstd: None,
            size_min: 1024,
            size_max: 16 * 1024 * 1024,
            streams: 64,
        }
    }
}

impl<'de> Deserialize<'de> for CompressionSetting {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Switch;

        impl<'de> Visitor<'de> for Switch {
            type Value = CompressionSetting;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("true, false or a table")
            }

            fn visit_bool<E: Error>(self, is_on: bool) -> Result<Self::Value, E> {
                Ok(CompressionSetting(is_on.then(Compression::default)))
            }

            fn visit_newtype_struct<D: Deserializer<'de>>(self, table: D) -> Result<Self::Value, D::Error> {
                Compression::deserialize(table).map(|table| CompressionSetting(Some(table)))
            }
        }

        deserializer.deserialize_newtype_struct(marker::SHORT, Switch)
    }
}

inline_schema!([] CompressionSetting, |generator| {
    json_schema!({ "anyOf": [{ "type": "boolean" }, generator.subschema_for::<Compression>()] })
});

/// Codings, the preferred one first.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Codings(pub Vec<Coding>);

impl<'de> Deserialize<'de> for Codings {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let names = OneOrMany::<String>::deserialize(deserializer)?;
        let coding = |name: &String| {
            let known = Coding::COMPRESSED.into_iter().find(|coding| coding.name() == name);
            known.ok_or_else(|| {
                D::Error::custom(two_lines(
                    format_args!("unknown coding \"{name}\""),
                    "expected br, zstd or gzip",
                ))
            })
        };
        names.as_slice().iter().map(coding).collect::<Result<_, _>>().map(Self)
    }
}

inline_schema!([] Codings, |_generator| {
    let one = json_schema!({ "enum": ["br", "zstd", "gzip"] });
    json_schema!({ "anyOf": [one, { "type": "array", "items": one, "minItems": 1 }] })
});

/// Media types in lower case without parameters: whole ones, `text/*` and `*`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct MediaTypes(Vec<String>);

impl MediaTypes {
    /// Whether a media type, with or without parameters, is in the list.
    fn contain(&self, media_type: &[u8]) -> bool {
        let essence = media_type::essence(media_type);
        self.0.iter().any(|pattern| match pattern.strip_suffix('*') {
            Some(start) => {
                essence.get(..start.len()).is_some_and(|own| own.eq_ignore_ascii_case(start.as_bytes()))
            }
            None => essence.eq_ignore_ascii_case(pattern.as_bytes()),
        })
    }
}

impl<'de> Deserialize<'de> for MediaTypes {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let types = OneOrMany::<String>::deserialize(deserializer)?;
        let is_name = |name: &str| !name.is_empty() && name.bytes().all(rudy_message::syntax::is_token);
        let check = |pattern: &String| match pattern.split_once('/') {
            _ if pattern == "*" => Ok("*".to_owned()),
            Some((kind, "*")) if is_name(kind) && kind != "*" => Ok(pattern.to_ascii_lowercase()),
            Some((kind, name)) if is_name(kind) && is_name(name) && !pattern.contains('*') => {
                Ok(pattern.to_ascii_lowercase())
            }
            _ => Err(D::Error::custom(two_lines(
                format_args!("\"{pattern}\" is not a media type"),
                "expected for example \"application/json\", \"text/*\" or \"*\"",
            ))),
        };
        types.as_slice().iter().map(check).collect::<Result<_, _>>().map(Self)
    }
}

inline_schema!([] MediaTypes, |_generator| {
    let one = json_schema!({ "type": "string" });
    json_schema!({ "anyOf": [one, { "type": "array", "items": one, "minItems": 1 }] })
});
