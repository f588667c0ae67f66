//! The configuration of compression.

use rudy_config::{Int, Invalid, OneOrMany, Setting, Shape, Table, Value, Words, two_lines};
use rudy_message::semantics::media_type;
use rudy_message::semantics::negotiation::Coding;
use rudy_units::Size;

/// The value of a key `compression`: `true`, `false` or a table.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct CompressionSetting(pub Option<Compression>);

/// Compression while responses are sent.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Table)]
#[setting(default)]
pub struct Compression {
    /// Codings to use: `br`, `zstd` and `gzip`. If a client accepts several with the same weight, the first one is used. The
    /// default is `["br", "zstd", "gzip"]` for files, whose results are kept, and `["zstd", "br", "gzip"]` for other responses,
    /// where Zstandard uses less CPU.
    #[setting(example = ["zstd", "gzip"])]
    pub codings: Option<Codings>,
    /// Media types to compress, as in `["text/*", "application/json"]`. `*` is all. The default is text and the few binary
    /// formats that are not compressed themselves.
    #[setting(example = ["text/*", "application/json"])]
    pub media_types: Option<MediaTypes>,
    /// Compression level for all codings, from 1 (fast) to 9 (small). Brotli uses at most 6. The default is 5 for files, and 4
    /// for other responses.
    #[setting(example = 5)]
    pub level: Option<Level>,
    /// Compression level of gzip. The default is `level`.
    #[setting(example = 6)]
    pub gzip: Option<Level>,
    /// Compression level of Brotli. The default is `level`.
    #[setting(example = 4)]
    pub br: Option<Level>,
    /// Compression level of Zstandard. The default is `level`.
    #[setting(example = 3)]
    pub zstd: Option<Level>,
    /// Minimum size of a file or response to compress. Compression saves nothing when it fits in one packet. A response of
    /// unknown size is compressed.
    #[setting(read = Size, default = Size(1024))]
    pub size_min: u64,
    /// Maximum size of a file or response to compress. A larger one is sent uncompressed. A response of unknown size is
    /// compressed.
    #[setting(read = Size, default = Size(16 * 1024 * 1024))]
    pub size_max: u64,
    /// Maximum number of responses that are compressed at the same time while they are sent. Further ones are sent
    /// uncompressed. Files up to `cache_max_file_size` do not count, and half of this number is the maximum for live
    /// streams. Each can use up to 5 MiB of memory (Brotli).
    #[setting(
        read = Int<0, 10_000>,
        default = Int(64),
        reason = "64 encoders use at most 320 MiB, and only if the results do not fit into the cache and the clients are slow."
    )]
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

impl Setting for CompressionSetting {
    const SHAPE: Shape = Shape::Either(&[&Shape::Boolean, &Compression::SHAPE]);

    fn read(value: &Value<'_>) -> Result<Self, Invalid> {
        match value.boolean() {
            Some(is_on) => Ok(Self(is_on.then(Compression::default))),
            None if value.is_table() => value.table().map(|table| Self(Some(table))),
            None => value.expected("true, false or a table"),
        }
    }
}

/// Codings, the preferred one first.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Codings(pub Vec<Coding>);

impl Setting for Codings {
    const SHAPE: Shape = <OneOrMany<CodingName>>::SHAPE;

    fn read(value: &Value<'_>) -> Result<Self, Invalid> {
        let names = <OneOrMany<CodingName>>::read(value)?;
        Ok(Self(names.as_slice().iter().map(|name| name.coding()).collect()))
    }
}

/// A coding of `codings`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Words)]
enum CodingName {
    /// Brotli.
    Br,
    /// Zstandard.
    Zstd,
    /// Gzip.
    Gzip,
}

impl CodingName {
    fn coding(self) -> Coding {
        match self {
            Self::Br => Coding::Brotli,
            Self::Zstd => Coding::Zstd,
            Self::Gzip => Coding::Gzip,
        }
    }
}

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

impl Setting for MediaTypes {
    const SHAPE: Shape = <OneOrMany<String>>::SHAPE;

    fn read(value: &Value<'_>) -> Result<Self, Invalid> {
        let types = <OneOrMany<String>>::read(value)?;
        let is_name = |name: &str| !name.is_empty() && name.bytes().all(rudy_message::syntax::is_token);
        let check = |pattern: &String| match pattern.split_once('/') {
            _ if pattern == "*" => Ok("*".to_owned()),
            Some((kind, "*")) if is_name(kind) && kind != "*" => Ok(pattern.to_ascii_lowercase()),
            Some((kind, name)) if is_name(kind) && is_name(name) && !pattern.contains('*') => {
                Ok(pattern.to_ascii_lowercase())
            }
            _ => value.invalid(two_lines(
                format_args!("\"{pattern}\" is not a media type"),
                "expected for example \"application/json\", \"text/*\" or \"*\"",
            )),
        };
        types.as_slice().iter().map(check).collect::<Result<_, _>>().map(Self)
    }
}
