//! A request in pieces, each of which can be spelled in another way.

use super::HOST;

/// The pieces, as they are sent one after the other.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Request {
    /// In front of the request line.
    pub(super) before: Vec<u8>,
    pub(super) method: Vec<u8>,
    /// Between method and target, and between target and version.
    pub(super) gaps: [Vec<u8>; 2],
    /// Scheme and authority, where the target has them.
    pub(super) origin: Vec<u8>,
    pub(super) path: Vec<u8>,
    /// With its question mark.
    pub(super) query: Vec<u8>,
    pub(super) version: Vec<u8>,
    /// Field lines without their ends; Host is the first.
    pub(super) fields: Vec<Vec<u8>>,
    /// The ends of the request line, of each field line, and of the head.
    pub(super) ends: [&'static [u8]; 3],
    /// The body with its framing.
    pub(super) body: Vec<u8>,
}

impl Request {
    /// A GET as every client sends it.
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

    /// A POST of this body.
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

    /// The target as it is sent.
    pub(super) fn target(&self) -> Vec<u8> {
        [&self.origin[..], &self.path, &self.query].concat()
    }

    /// What goes over the wire.
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

/// One way to spell a piece otherwise.
pub(super) struct Change {
    /// Which piece, and how: `path/encoded-slash`. Rules name it.
    pub(super) tag: &'static str,
    /// Changes a request; one that it does not fit stays as it is.
    pub(super) apply: Box<dyn Fn(&mut Request) + Send + Sync>,
}

impl Change {
    pub(super) fn new(tag: &'static str, apply: impl Fn(&mut Request) + Send + Sync + 'static) -> Self {
        Self { tag, apply: Box::new(apply) }
    }

    /// The piece of the request: two changes of one piece do not go together.
    pub(super) fn piece(&self) -> &'static str {
        self.tag.split('/').next().unwrap_or(self.tag)
    }
}
