//! What clients ask for.

/// A resource of an origin. Its path says everything about it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Resource {
    /// Decides the bytes.
    pub number: u64,
    /// The length in bytes.
    pub length: usize,
    /// Whether the origin sends chunks, without a length.
    pub is_chunked: bool,
}

impl Resource {
    /// Returns the path below that of a route.
    #[must_use]
    pub fn path(&self) -> String {
        format!("{}-{}-{}", self.number, self.length, u8::from(self.is_chunked))
    }

    /// Reads the last segment of a path. Anything else is the empty resource 0.
    #[must_use]
    pub fn of_path(path: &str) -> Self {
        let mut parts = path.rsplit('/').next().unwrap_or_default().split('-').map(str::parse);
        let mut next = || parts.next().and_then(Result::ok).unwrap_or(0_u64);
        let (number, length, is_chunked) = (next(), next(), next());
        Self { number, length: usize::try_from(length).unwrap_or(0), is_chunked: is_chunked == 1 }
    }
}
