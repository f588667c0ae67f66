//! The rewritten documents: their entity tags, with which HEAD and conditional requests need no content, and the texts that are being
//! sent, which all clients share.

use std::hash::BuildHasher;
use std::sync::Weak;

use quick_cache::sync::Cache;
use rudy_message::semantics::etag::EntityTag;
use rudy_pipeline::request_state::HasResponseState;
use rudy_runtime::random::RandomState;
use rudy_service::Response;

use super::memory::Counted;
use super::preset::Format;

/// The number of documents to remember. Others are rewritten once more.
const DOCUMENTS: usize = 16 * 1024;

/// What a mirror remembers of rewritten documents, by a hash of their content and their links.
#[derive(Debug)]
pub(super) struct Tags {
    hasher: RandomState,
    known: Cache<u64, Rewritten>,
}

/// A rewritten document.
#[derive(Debug, Clone)]
pub(super) struct Rewritten {
    pub(super) tag: EntityTag,
    pub(super) length: u64,
    /// Its content, while it is sent to a client.
    pub(super) text: Weak<Counted>,
}

/// The place of a document.
pub(super) struct Place<'a> {
    tags: &'a Tags,
    hash: u64,
}

impl Default for Tags {
    fn default() -> Self {
        Self { hasher: RandomState::new(), known: Cache::new(DOCUMENTS) }
    }
}

impl Tags {
    /// Returns the place of what a response becomes in a format, for clients of a URL of the mirror. `None` if the response is not a
    /// stored one.
    pub(super) fn place(&self, response: &Response, format: Format, mirror: &str) -> Option<Place<'_>> {
        let content = response.state().content.as_ref()?;
        Some(self.at(self.hasher.hash_one((content.id, format, mirror))))
    }

    pub(super) fn at(&self, hash: u64) -> Place<'_> {
        Place { tags: self, hash }
    }
}

impl Place<'_> {
    pub(super) fn get(&self) -> Option<Rewritten> {
        self.tags.known.get(&self.hash)
    }

    pub(super) fn set(&self, rewritten: Rewritten) {
        self.tags.known.insert(self.hash, rewritten);
    }
}
