//! The content of the objects: all of it follows from the number of the version.

use bytes::Bytes;
use http::{HeaderMap, HeaderName, Request, Response};
use rudy_cache::{Decision, Exchange, HttpDate, Key, Policy, Stored};
use rudy_store::Target;

use super::random::Random;

/// The place of an object: a path and a language, or none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Place {
    pub(crate) path: u8,
    pub(crate) language: Option<&'static str>,
}

const PATHS: u8 = 12;
const LANGUAGES: [&str; 2] = ["de", "en"];
const TAGS: u64 = 5;
const LENGTHS: [usize; 10] = [0, 1, 100, 4000, 8000, 20_000, 65_536, 65_537, 90_000, 130_000];

impl Place {
    pub(crate) fn random(random: &mut Random) -> Self {
        let path = u8::try_from(random.below(PATHS.into())).expect("less than 12");
        Self { path, language: LANGUAGES.get(random.index(3)).copied() }
    }

    pub(crate) fn all() -> impl Iterator<Item = Self> {
        let languages = || LANGUAGES.into_iter().map(Some).chain([None]);
        (0..PATHS).flat_map(move |path| languages().map(move |language| Self { path, language }))
    }

    pub(crate) fn key(self) -> Key {
        Key::new(true, b"a.example", format!("/{}/{}", self.path % 3, self.path).as_bytes())
    }

    /// Returns the fields of a request that selects the place.
    pub(crate) fn request(self) -> HeaderMap {
        let mut fields = HeaderMap::new();
        if let Some(language) = self.language {
            fields.insert("accept-language", language.parse().expect("a language"));
        }
        fields
    }
}

/// A version of an object: its number, and the number of the last update of its metadata.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Version {
    pub(crate) number: u64,
    pub(crate) update: u64,
    /// Whether it needs a validation.
    pub(crate) is_stale: bool,
}

impl Version {
    pub(crate) fn new(number: u64) -> Self {
        Self { number, update: 0, is_stale: false }
    }

    /// Returns the metadata at a place.
    pub(crate) fn stored(self, place: Place) -> Stored {
        let (mut request, mut response) = (Request::new(()), Response::new(()));
        *request.headers_mut() = place.request();
        let filler = "y".repeat(usize::try_from(self.update * 13 % 90).expect("less than 90"));
        let mut lines = vec![
            ("cache-control", "max-age=60".to_owned()),
            ("etag", format!("\"{}\"", self.number)),
            ("x-update", format!("{} {filler}", self.update)),
            ("cache-tag", format!("all, t{}", self.number % TAGS)),
        ];
        if place.language.is_some() {
            lines.push(("vary", "accept-language".to_owned()));
        }
        for (name, value) in lines {
            response.headers_mut().insert(HeaderName::from_static(name), value.parse().expect("a value"));
        }
        let exchange = Exchange { requested_at: time(), received_at: time() };
        Policy::default().store(&request, &response, exchange).expect("it is cacheable")
    }

    /// Returns the version that metadata belongs to.
    pub(crate) fn of(stored: &Stored) -> Option<Self> {
        let field = |name| stored.fields().get(name)?.to_str().ok();
        let number = field("etag")?.trim_matches('"').parse().ok()?;
        let update = field("x-update")?.split(' ').next()?.parse().ok()?;
        let mut request = Request::new(());
        // With the fields that its variant has, any of the languages matches.
        let is_hit = LANGUAGES.iter().any(|language| {
            request.headers_mut().insert("accept-language", language.parse().expect("a language"));
            matches!(
                Policy::default().lookup(&request, std::slice::from_ref(stored), time()),
                Decision::Hit(_)
            )
        });
        Some(Self { number, update, is_stale: !is_hit })
    }

    pub(crate) fn body(self) -> Bytes {
        let length = LENGTHS[usize::try_from(self.number * 7 % 10).expect("less than 10")];
        let mut random = Random::new(self.number << 32);
        let mut body = Vec::with_capacity(length + 8);
        while body.len() < length {
            body.extend_from_slice(&random.next().to_le_bytes());
        }
        body.truncate(length);
        body.into()
    }

    pub(crate) fn is_concerned(self, place: Place, target: &Target) -> bool {
        match target {
            Target::Key(key) => place.key() == *key,
            Target::Prefix(prefix) => place.key().as_bytes().starts_with(prefix),
            // The objects here have no site, and so that of every purge.
            Target::Tag(tag) | Target::TagOfSite { tag, .. } => {
                *tag == *b"all" || *tag == *format!("t{}", self.number % TAGS).as_bytes()
            }
        }
    }
}

pub(crate) fn random_target(random: &mut Random) -> Target {
    match random.below(8) {
        0 => Target::Tag(b"all".into()),
        1 => Target::Tag(format!("t{}", random.below(TAGS)).into()),
        2 => Target::TagOfSite { site: b"a.example".into(), tag: format!("t{}", random.below(TAGS)).into() },
        3 | 4 => Target::Prefix(format!("https://a.example/{}/", random.below(3)).into()),
        _ => Target::Key(Place::random(random).key()),
    }
}

/// The time of all exchanges and lookups: what is stored is fresh.
fn time() -> HttpDate {
    HttpDate::from_unix_seconds(1_000_000_000)
}
