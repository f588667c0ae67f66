//! From an open file to an entry: its siblings, its codings, its heads.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use http::HeaderValue;
use rudy_http::semantics::media_type;
use rudy_http::semantics::negotiation::Coding;

use super::entry::{self, Coded, Content, Entry, Evidence, Representation};
use super::failure::Failure;
use super::find::open_if_there;
use super::root::{Kind, Opened, Stat};
use super::{Files, clock, source};

/// The files that hold an open file's codings, in the order of [`Coding::COMPRESSED`].
type Siblings = [Option<Opened>; 3];

impl Files {
    /// A file that the operator named (an error page, the fallback), and what it is kept under.
    pub(super) fn named(&self, path: &str) -> Result<(String, Arc<Entry>), Failure> {
        let key = key_of_named(path);
        if let Some(entry) = self.0.entries.get(&key)
            && self.is_current(&entry, &key)
        {
            return Ok((key, entry));
        }
        let opened = open_if_there(&self.0.root, path)?;
        let is_sent = |opened: &Opened| {
            opened.stat.kind == Kind::File && !source::is_file_kept_back(opened, path, &self.0.options)
        };
        let Some(opened) = opened.filter(is_sent) else {
            self.say_missing(path);
            return Err(Failure::NotFound);
        };
        let evidence = vec![Evidence { path: path.to_owned(), seen: Some(opened.stat) }];
        let entry = self.load_and_keep(&key, opened, path, evidence);
        Ok((key, entry))
    }

    /// Makes the entry of an open file, and keeps it under `key`.
    pub(super) fn load_and_keep(
        &self,
        key: &str,
        opened: Opened,
        path: &str,
        mut evidence: Vec<Evidence>,
    ) -> Arc<Entry> {
        let siblings = self.siblings(path, &mut evidence);
        let entry = Arc::new(self.load(opened, path, siblings, evidence));
        self.0.entries.insert(key, entry.clone());
        entry
    }

    fn siblings(&self, path: &str, evidence: &mut Vec<Evidence>) -> Siblings {
        if !self.0.options.precompressed {
            return Siblings::default();
        }
        Coding::COMPRESSED.map(|coding| {
            let path = format!("{path}{}", coding.extension());
            // One that cannot be opened is not offered, and said; the plain file answers.
            let found = open_if_there(&self.0.root, &path).unwrap_or_else(|failure| {
                self.say(&failure);
                None
            });
            evidence.push(Evidence { path, seen: found.as_ref().map(|opened| opened.stat) });
            found.filter(|opened| opened.stat.kind == Kind::File)
        })
    }

    fn load(&self, opened: Opened, path: &str, siblings: Siblings, evidence: Vec<Evidence>) -> Entry {
        let stat = opened.stat;
        let now_ns = clock::unix_ns();
        let media_type = media_type::of_name(path);
        let on_the_fly = self.compresses(&stat, &media_type);
        let all = || std::iter::once(stat).chain(siblings.iter().flatten().map(|opened| opened.stat));
        // All or none, so that an entry takes either memory or descriptors.
        let in_memory = all().all(|stat| stat.size <= self.0.entries.file_bytes_max());
        let settled = all().all(|stat| stat.identity().is_settled(now_ns));
        let varies = on_the_fly || siblings.iter().any(Option::is_some);
        let common = entry::common_fields(varies, self.0.cache_rules.value(path), &self.0.extra);
        let content = Content::of(opened, in_memory);
        let plain = Representation::plain(content, &stat, now_ns, media_type, &common);
        let mut codings = Coding::COMPRESSED.into_iter();
        let coded = siblings.map(|sibling| match (codings.next(), sibling) {
            (Some(coding), Some(opened)) => {
                let stat = opened.stat;
                Coded::Sibling(plain.sibling(Content::of(opened, in_memory), &stat, now_ns, coding))
            }
            _ if on_the_fly => Coded::OnTheFly,
            _ => Coded::No,
        });
        let checked_ms = AtomicU64::new(clock::monotonic_ms());
        Entry { path: path.into(), plain, coded, evidence: evidence.into(), stat, settled, checked_ms }
    }

    fn compresses(&self, stat: &Stat, media_type: &HeaderValue) -> bool {
        self.0.options.compression.as_ref().is_some_and(|compression| {
            (compression.size_min..=compression.size_max).contains(&stat.size)
                && media_type::is_compressible(media_type)
        })
    }
}

/// What a file that the operator named is kept under: NUL is in no path that anybody can ask for.
fn key_of_named(path: &str) -> String {
    format!("\0{path}")
}
