//! A request in pieces, and changes to the spelling of a piece.

use super::HOST;

/// The pieces of a request, in the order in which they are sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Request {
    /// Bytes before the request line.
    pub(super) before: Vec<u8>,
    pub(super) method: Vec<u8>,
    /// The separators between method and target, and between target and version.
    pub(super) gaps: [Vec<u8>; 2],
    /// The scheme and the authority of an absolute target.
    pub(super) origin: Vec<u8>,
    pub(super) path: Vec<u8>,
    /// The query with its question mark.
    pub(super) query: Vec<u8>,
    pub(super) version: Vec<u8>,
    /// The field lines without their ends; the first is Host.
    pub(super) fields: Vec<Vec<u8>>,
    /// The ends of the request line, of each field line, and of the head.
    pub(super) ends: [&'static [u8]; 3],
    /// The body with its framing.
    pub(super) body: Vec<u8>,
}

impl Request {
    /// Creates an ordinary GET request.
    pub(super) fn get(path: &str) -> Self {
        let (path, query) = path.split_at(path.find('?').unwrap_or(path.len()));
        Self {
            before: Vec::new(),
            method: b"GET".to_vec(),
            gaps: [b" ".to_vec(), b" ".to_vec()],
            origin: Vec::new(),
            path: path.into(),
            query: query.into(),
            version: b"HTTP/1.1".to_vec(),
            fields: vec![format!("Host: {HOST}").into_bytes()],
            ends: [b"\r\n"; 3],
            body: Vec::new(),
        }
    }

    /// Creates a POST request with a body.
    pub(super) fn post(path: &str, body: &[u8]) -> Self {
        let mut request = Self::get(path);
        request.method = b"POST".to_vec();
        request.field("Content-Type: text/plain");
        request.field(format!("Content-Length: {}", body.len()));
        request.body = body.to_vec();
        request
    }

    /// Adds a field line.
    pub(super) fn field(&mut self, line: impl AsRef<[u8]>) {
        self.fields.push(line.as_ref().to_vec());
    }

    /// Removes the lines of the field `name`.
    pub(super) fn remove(&mut self, name: &str) {
        let name = format!("{name}:").into_bytes();
        self.fields.retain(|line| !line.starts_with(&name));
    }

    pub(super) fn is_post(&self) -> bool {
        self.method == b"POST"
    }

    /// Returns the target.
    pub(super) fn target(&self) -> Vec<u8> {
        [&self.origin[..], &self.path, &self.query].concat()
    }

    /// Encodes the request.
    pub(super) fn bytes(&self) -> Vec<u8> {
        let [first, second] = &self.gaps;
        let line = [&self.before[..], &self.method, first, &self.target(), second, &self.version].concat();
        let mut bytes = [&line[..], self.ends[0]].concat();
        for field in &self.fields {
            bytes.extend_from_slice(field);
            bytes.extend_from_slice(self.ends[1]);
        }
        [&bytes[..], self.ends[2], &self.body].concat()
    }
}

/// A change to the spelling of a piece.
pub(super) struct Change {
    /// The piece and the change, for rules to match: `path/encoded-slash`.
    pub(super) tag: &'static str,
    /// Changes a request, if it is applicable.
    pub(super) apply: Box<dyn Fn(&mut Request) + Send + Sync>,
}

impl Change {
    pub(super) fn new(tag: &'static str, apply: impl Fn(&mut Request) + Send + Sync + 'static) -> Self {
        Self { tag, apply: Box::new(apply) }
    }

    /// Returns the piece of the request. Two changes of one piece cannot be combined.
    pub(super) fn piece(&self) -> &'static str {
        self.tag.split('/').next().unwrap_or(self.tag)
    }
}
