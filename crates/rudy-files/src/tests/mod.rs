//! Tests [`Files::respond_to`] with temporary folders.

mod access;
mod cache;
mod codings;
mod conditions;
mod folders;
mod listing;
mod lookup;
mod paths;

use std::fs;
use std::os::unix::fs::FileExt;
use std::time::{Duration, Instant, SystemTime};

use http::{HeaderMap, Method, StatusCode};
use rudy_message::semantics::path::RequestPath;
use rudy_service::{Body, BodyPiece, FileRange, Reply, Request};
use rudy_system::file_access::{Access, WouldBlock};
use tempfile::TempDir;

use super::{Browse, Files, FilesOptions, Folders, Outcome, TriedFile};

/// A folder and its handler.
struct Site {
    folder: TempDir,
    files: Files,
}

/// A response with its whole body.
struct TestResponse {
    status: StatusCode,
    headers: HeaderMap,
    body: Vec<u8>,
    /// Whether it was [`Reply::Now`].
    is_immediate: bool,
}

/// Reads the entries of `try_files`.
fn tried(paths: &[&str]) -> Vec<TriedFile> {
    paths.iter().map(|path| path.parse().unwrap()).collect()
}

impl Site {
    /// Returns a site with these files, which were changed an hour ago, and default options.
    fn with(contents: &[(&str, &str)]) -> Self {
        Self::with_options(contents, FilesOptions::default())
    }

    fn with_options(contents: &[(&str, &str)], options: FilesOptions) -> Self {
        Self::in_folders(contents, options, &Folders::default())
    }

    fn in_folders(contents: &[(&str, &str)], options: FilesOptions, folders: &Folders) -> Self {
        let folder = TempDir::new().unwrap();
        for (path, content) in contents {
            write(&folder, path, content, Duration::from_hours(1));
        }
        let files = Files::open(folder.path(), options, folders).unwrap();
        Self { folder, files }
    }

    /// Writes a file with the current modification time.
    fn write(&self, path: &str, content: &str) {
        write(&self.folder, path, content, Duration::ZERO);
    }

    fn write_old(&self, path: &str, content: &str, age: Duration) {
        write(&self.folder, path, content, age);
    }

    /// Returns the reply to a GET.
    fn send_get(&self, path: &str) -> Reply {
        self.send(&Request::default(), path)
    }

    /// Returns the reply to a request, from the thread pool if needed.
    fn send(&self, request: &Request<'_>, path: &str) -> Reply {
        let call = |access| self.call(request, path, access);
        call(Access::Cached).or_else(|WouldBlock| call(Access::Blocking)).unwrap()
    }

    /// Returns the reply to a request with the given access to the file system.
    fn call(&self, request: &Request<'_>, path: &str, access: Access) -> Result<Reply, WouldBlock> {
        let path = RequestPath::parse(path).unwrap();
        match self.files.respond_to(request, path.below(0), None, access)? {
            Outcome::Reply(reply) => Ok(reply),
            Outcome::Redirect { .. } | Outcome::NextRoute => panic!("there are no other routes"),
        }
    }

    fn get(&self, path: &str) -> TestResponse {
        self.request(&Method::GET, path, &[])
    }

    fn get_with(&self, path: &str, fields: &[(&str, &str)]) -> TestResponse {
        self.request(&Method::GET, path, fields)
    }

    fn request(&self, method: &Method, target: &str, fields: &[(&str, &str)]) -> TestResponse {
        let path = target.split('?').next().unwrap_or_default();
        // Paths that the http crate rejects are tested too.
        let uri: http::Uri = target.parse().unwrap_or_default();
        let mut request = Request::default();
        request.set_method(method.clone());
        request.set_uri(uri);
        for (name, value) in fields {
            let name = http::HeaderName::from_bytes(name.as_bytes()).unwrap();
            request.headers_mut().append(name, value.parse().unwrap());
        }
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            if RequestPath::parse(path).is_err() {
                let status = StatusCode::BAD_REQUEST;
                return TestResponse {
                    status,
                    headers: HeaderMap::new(),
                    body: Vec::new(),
                    is_immediate: true,
                };
            }
            let (response, is_immediate) = match self.send(&request, path) {
                Reply::Now(response) => (response, true),
                Reply::Later(future) => (future.await, false),
            };
            let (status, headers) = (response.status(), response.headers().clone());
            let length = response.body.length();
            let body = collect(response.body).await;
            assert!(
                length.is_none_or(|length| length == body.len() as u64),
                "the length of the body is the announced one"
            );
            TestResponse { status, headers, body, is_immediate }
        })
    }
}

impl TestResponse {
    fn field(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().unwrap())
    }

    fn text(&self) -> &str {
        std::str::from_utf8(&self.body).unwrap()
    }

    /// Status and body, for comparisons.
    fn brief(&self) -> (u16, &str) {
        (self.status.as_u16(), self.text())
    }
}

fn write(folder: &TempDir, path: &str, content: &str, age: Duration) {
    let path = folder.path().join(path);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(&path, content).unwrap();
    fs::File::options().write(true).open(&path).unwrap().set_modified(SystemTime::now() - age).unwrap();
}

async fn collect(body: Body) -> Vec<u8> {
    match body {
        Body::Empty | Body::Silence => Vec::new(),
        Body::Bytes(bytes) => bytes.to_vec(),
        Body::File(range) => read(&range),
        Body::Stream(mut stream) => {
            let mut all = Vec::new();
            while let Some(piece) =
                std::future::poll_fn(|cx| stream.poll_piece(cx, Instant::now(), u64::MAX)).await
            {
                match piece.unwrap() {
                    BodyPiece::Data(bytes) => all.extend_from_slice(&bytes),
                    BodyPiece::File(range) => all.extend_from_slice(&read(&range)),
                    BodyPiece::Trailers(_) => panic!("a file has no trailers"),
                }
            }
            all
        }
    }
}

fn read(range: &FileRange) -> Vec<u8> {
    let mut bytes = vec![0; usize::try_from(range.length).unwrap()];
    range.file.read_exact_at(&mut bytes, range.start).unwrap();
    bytes
}

/// Options that check for changes at every request.
fn always_revalidate() -> FilesOptions {
    FilesOptions { revalidate_after: Duration::ZERO, ..FilesOptions::default() }
}

/// Options that cache no content in memory: every body is a file.
fn on_disk() -> FilesOptions {
    FilesOptions { cache_max_file_size: 0, ..FilesOptions::default() }
}
