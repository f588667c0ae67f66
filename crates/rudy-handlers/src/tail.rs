//! The `tail` handler: streams lines as they are appended to files. One thread follows the files for all clients.

use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::Duration;

use http::StatusCode;
use parking_lot::Mutex;
use rudy_config::{FilePath, Int, Location, OneOrMany, Problem, Table};
use rudy_log::{ErrorLog, LINE_BYTES_MAX};
use rudy_pipeline::methods::respond_unless_read;
use rudy_pipeline::{AllowedClients, BuildContext, Call, Context, Handler, HandlerConfig, Start, pages};
use rudy_runtime::clock;
use rudy_service::{Reply, Request, Response};
use rudy_units::{Size, Time, visible};

use super::StreamFormat;
use super::subscribe::{Subscribe, framing, heartbeat, retry};
use crate::follow::{Event, Follower, Line, Pattern};
use crate::topic::{Batch, Framing, History, Topic};

/// How long the files are followed after the last client disconnects, so that a client that reconnects gets past messages.
const LINGER_TIMEOUT: Duration = Duration::from_mins(1);
/// Size of a batch in bytes that is published at once.
const BATCH_BYTES: usize = 64 * 1024;

/// Streams the lines of files while they are written, as `tail -F` does. The files are read once for all clients.
#[derive(Debug, Clone, Table)]
#[setting(example = { files = "/var/log/app/*.log", allow = "loopback" })]
pub struct TailTable {
    /// Files to follow, relative to the configuration file. Each part of a path may contain `*`, `?`, `[ab]` and
    /// `{a,b}`, as in `/var/log/app/*.log`. Files that are created later are followed too.
    #[setting(example = "/var/log/app/*.log")]
    pub files: OneOrMany<FilePath>,
    /// Clients that can read the files. Clients with another address get 403. Use `"loopback"` (this machine, without
    /// a proxy), addresses, networks, or `"anyone"`.
    #[setting(example = "loopback")]
    pub allow: AllowedClients,
    /// Number of existing lines to begin with: of each file for the first client, of all files together for clients
    /// that join it.
    #[setting(default = Int(10))]
    pub last: Int<0, 1_000_000>,
    /// Format of the stream.
    #[setting(default)]
    pub format: StreamFormat,
    /// Prefixes each line with the name of its file. The default is `true` if there can be several files.
    pub names: Option<bool>,
    /// Number of lines stored for clients that reconnect or read slowly, as in `broadcast`.
    #[setting(default = Int(1000))]
    pub history: Int<1, 1_000_000>,
    /// Maximum size of the stored lines.
    #[setting(default = Size(1024 * 1024))]
    pub history_bytes: Size,
    /// Time without lines after which a comment is sent, as in `broadcast`. `format = "plain"` has no comments.
    #[setting(default = heartbeat())]
    pub heartbeat: Time,
    /// Time that clients wait before they reconnect.
    #[setting(default = retry())]
    pub retry: Time,
}

impl HandlerConfig for TailTable {
    fn describe(&self) -> String {
        let files: Vec<_> = self.files.as_slice().iter().map(|file| file.display().to_string()).collect();
        format!("{} as {}, for {}", files.join(" "), self.format.describe(), self.allow)
    }

    fn paths_read(&self) -> Vec<PathBuf> {
        self.files.as_slice().iter().map(|file| before_pattern(file)).collect()
    }

    fn build(&self, route: &BuildContext<'_>) -> Result<Box<dyn Handler>, Vec<Problem>> {
        Ok(Box::new(Tail::new(self, route.location)?))
    }

    fn is_endless(&self) -> bool {
        true
    }
}

impl Handler for Tail {
    fn call(&self, request: Request<'_>, call: Call<'_>) -> Reply {
        self.respond(&request, call.context).into()
    }

    fn start(&self, start: &Start<'_>) -> std::io::Result<()> {
        self.source.log.get_or_init(|| start.log.clone());
        Ok(())
    }
}

/// Returns the folder in which followed files can be created: the last one before a pattern.
fn before_pattern(files: &Path) -> PathBuf {
    let is_pattern = |path: &Path| path.to_string_lossy().contains(['*', '?', '[', '{']) && !path.exists();
    let folder = files.ancestors().skip(1).find(|folder| !is_pattern(folder));
    match folder {
        Some(folder) if !folder.as_os_str().is_empty() => folder.to_owned(),
        _ => ".".into(),
    }
}

/// The handler of one route.
#[derive(Debug)]
pub(crate) struct Tail {
    subscribe: Subscribe,
    allowed: AllowedClients,
    source: Arc<Source>,
}

/// The followed files and the topic with their lines.
#[derive(Debug)]
struct Source {
    patterns: Vec<Pattern>,
    last: u64,
    has_names: bool,
    framing: Framing,
    history: History,
    /// How long the files are followed after the last client disconnects.
    linger_timeout: Duration,
    log: OnceLock<ErrorLog>,
    /// The topic, while the files are followed. Each start creates a new one, because lines written in between are missing: a client
    /// that reconnects with an old id learns that.
    topic: Mutex<Option<Arc<Topic>>>,
}

impl Tail {
    /// Prepares the handler.
    pub(crate) fn new(table: &TailTable, location: &Location) -> Result<Self, Vec<Problem>> {
        Self::with_linger_timeout(table, location, LINGER_TIMEOUT)
    }

    fn with_linger_timeout(
        table: &TailTable,
        location: &Location,
        linger_timeout: Duration,
    ) -> Result<Self, Vec<Problem>> {
        let mut problems = Vec::new();
        let subscribe =
            Subscribe::new(table.format, table.last.as_u32(), table.heartbeat, table.retry, location);
        let subscribe = subscribe.map_err(|more| problems.extend(more));
        let mut patterns = Vec::new();
        for file in table.files.as_slice() {
            match Pattern::new(file) {
                Ok(pattern) => patterns.push(pattern),
                Err(why) => {
                    let title = format!("cannot follow {}", file.display());
                    problems.push(Problem::value(&location.key("files"), title).label(why));
                }
            }
        }
        let (Ok(subscribe), []) = (subscribe, problems.as_slice()) else { return Err(problems) };
        let has_several = patterns.len() > 1 || patterns.iter().any(Pattern::is_glob);
        let source = Source {
            patterns,
            last: table.last.0,
            has_names: table.names.unwrap_or(has_several),
            framing: framing(table.format),
            history: History { messages: table.history.0, bytes: table.history_bytes.0 },
            linger_timeout,
            log: OnceLock::new(),
            topic: Mutex::new(None),
        };
        Ok(Self { subscribe, allowed: table.allow.clone(), source: Arc::new(source) })
    }

    /// Responds to a request. The first client starts the thread that follows the files.
    pub(crate) fn respond(&self, request: &Request<'_>, context: Context<'_>) -> Response {
        if let Some(rejection) =
            respond_unless_read(request).or_else(|| self.allowed.reject(request, context))
        {
            return rejection;
        }
        let mut topic = self.source.topic.lock();
        if let Some(topic) = &*topic {
            return self.subscribe.respond(topic, request);
        }
        let new = Arc::new(Topic::new(self.source.framing));
        // Subscribe before the files are read, so that the first lines are not past messages.
        let response = self.subscribe.respond(&new, request);
        match self.source.start(&new) {
            Ok(()) => {
                *topic = Some(new);
                response
            }
            Err(error) => {
                self.source.log_error(&format!("cannot start the thread that follows files: {error}"));
                let explanation = "Cannot follow the files. See the error log of the server.";
                pages::error(StatusCode::SERVICE_UNAVAILABLE, request.headers(), explanation)
            }
        }
    }
}

impl Source {
    fn start(self: &Arc<Self>, topic: &Arc<Topic>) -> std::io::Result<()> {
        let (source, topic) = (self.clone(), topic.clone());
        let run = move || source.follow(&topic);
        thread::Builder::new().name("follow".to_owned()).spawn(run).map(drop)
    }

    /// The thread's loop: follows the files until there have been no subscribers for a while.
    fn follow(&self, topic: &Topic) {
        let _reset = ResetOnPanic(self);
        let mut follower = Follower::new(self.patterns.clone(), self.last);
        let mut batch = Batch::default();
        loop {
            follower.read(clock::now(), &mut |event| self.handle(event, &mut batch, topic));
            topic.publish(&batch, self.history);
            batch.clear();
            // Clients subscribe with this lock held, so none subscribes while the thread ends.
            let mut current = self.topic.lock();
            if topic.is_idle(clock::now(), self.linger_timeout) {
                *current = None;
                return;
            }
            drop(current);
            follower.wait();
        }
    }

    fn handle(&self, event: Event<'_>, batch: &mut Batch, topic: &Topic) {
        match event {
            Event::Line(line) => {
                batch.push(&self.format(&line));
                if batch.bytes() >= BATCH_BYTES {
                    topic.publish(batch, self.history);
                    batch.clear();
                }
            }
            Event::Name(_) => {}
            Event::Notice(message) => {
                if let Some(log) = self.log.get() {
                    log.notice(message);
                }
            }
            Event::Error(message) => self.log_error(message),
        }
    }

    fn format(&self, line: &Line<'_>) -> String {
        // Escape the name, because a line break in it could start a forged line or SSE field.
        let name = || format!("{} | ", visible(&line.file.to_string_lossy()));
        let name = if self.has_names { name() } else { String::new() };
        let cut = if line.is_cut { format!(" [cut after {LINE_BYTES_MAX} bytes]") } else { String::new() };
        format!("{name}{}{cut}", String::from_utf8_lossy(line.text))
    }

    fn log_error(&self, message: &str) {
        if let Some(log) = self.log.get() {
            log.error(message);
        }
    }
}

/// Removes the topic if the thread panics, so that the next client starts a new thread.
struct ResetOnPanic<'a>(&'a Source);

impl Drop for ResetOnPanic<'_> {
    fn drop(&mut self) {
        if thread::panicking() {
            *self.0.topic.lock() = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::task::{Context, Poll, Wake, Waker};
    use std::time::Instant;

    use rudy_service::{Body, BodyPiece, BodyStream, Client, Peer, RequestBody};

    use super::*;
    use rudy_config::from_text;
    use rudy_pipeline::{self, Routes};

    #[test]
    fn followed_files_are_in_the_last_folder_without_a_pattern() {
        for (files, expected) in [
            ("/var/log/app.log", "/var/log"),
            ("/var/log/*.log", "/var/log"),
            ("/var/log/*/app-[0-9].log", "/var/log"),
            ("app.log", "."),
            ("*.log", "."),
            ("*/app.log", "."),
            ("/*.log", "/"),
        ] {
            assert_eq!(before_pattern(Path::new(files)), Path::new(expected), "{files}");
        }
    }

    /// Parses a table. The default of `allow` is `loopback`.
    fn table(folder: &Path, text: &str) -> TailTable {
        let allow = if text.contains("allow") { "" } else { "allow = 'loopback'\n" };
        let mut table: TailTable = from_text(&format!("{allow}{text}")).unwrap();
        table.files = table.files.as_slice().iter().map(|file| folder.join(file).into()).collect();
        table
    }

    fn tail(folder: &Path, text: &str) -> Result<Tail, Vec<Problem>> {
        Tail::new(&table(folder, text), &Location::none())
    }

    fn request(tail: &Tail, peer: [u8; 4]) -> Response {
        let request = http::Request::get("/log")
            .header("host", "localhost")
            .body(RequestBody::empty())
            .map(Request::from)
            .unwrap();
        let (client, routes) = (Client::new(Peer::Ip((peer, 1).into()), 1, 1), Arc::new(Routes::none()));
        tail.respond(&request, rudy_pipeline::Context::new(&client, &routes))
    }

    fn listen(tail: &Tail) -> Box<dyn BodyStream> {
        match request(tail, [127, 0, 0, 1]).body {
            Body::Stream(live) => live,
            _ => panic!("the response is a stream"),
        }
    }

    struct Unpark(thread::Thread);

    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }

    /// Reads at least `bytes` bytes.
    fn read(live: &mut dyn BodyStream, bytes: usize) -> String {
        let waker = Waker::from(Arc::new(Unpark(thread::current())));
        let mut text = String::new();
        while text.len() < bytes {
            match live.poll_piece(&mut Context::from_waker(&waker), Instant::now(), u64::MAX) {
                Poll::Ready(Some(Ok(BodyPiece::Data(piece)))) => {
                    text.push_str(std::str::from_utf8(&piece).unwrap());
                }
                Poll::Ready(_) => panic!("the stream does not end"),
                Poll::Pending => thread::park(),
            }
        }
        text
    }

    #[test]
    fn one_thread_serves_all_clients() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("a.log"), "1\n2\n3\n").unwrap();
        let tail = tail(folder.path(), "files = 'a.log'\nlast = 2").unwrap();
        let mut first = listen(&tail);
        assert_eq!(read(&mut *first, 4), "2\n3\n");
        let mut second = listen(&tail);
        assert_eq!(read(&mut *second, 4), "2\n3\n");
        std::fs::write(folder.path().join("a.log"), "1\n2\n3\n4\n").unwrap();
        assert_eq!((read(&mut *first, 2), read(&mut *second, 2)), ("4\n".into(), "4\n".into()));
        assert_eq!(Arc::strong_count(&tail.source), 2, "this handler and one thread");
    }

    #[test]
    fn following_ends_after_the_last_client_and_starts_again_with_the_next() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("a.log");
        std::fs::write(&file, "1\n").unwrap();
        let table = table(folder.path(), "files = 'a.log'\nlast = 1");
        let tail = Tail::with_linger_timeout(&table, &Location::none(), Duration::ZERO).unwrap();
        let mut live = listen(&tail);
        assert_eq!(read(&mut *live, 2), "1\n");
        drop(live);
        // Each write wakes the thread, which then ends.
        while tail.source.topic.lock().is_some() {
            std::fs::write(&file, "2\n3\n").unwrap();
        }
        assert_eq!(read(&mut *listen(&tail), 2), "3\n");
    }

    #[test]
    fn lines_have_the_name_of_their_file_if_there_can_be_several() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("a.log"), "x\n").unwrap();
        let name = folder.path().join("a.log").display().to_string();
        for (table, expected) in [
            ("files = '*.log'", format!("{name} | x\n")),
            ("files = '*.log'\nnames = false", "x\n".to_owned()),
            ("files = 'a.log'\nnames = true", format!("{name} | x\n")),
        ] {
            let tail = tail(folder.path(), table).unwrap();
            assert_eq!(read(&mut *listen(&tail), expected.len()), expected, "{table}");
        }
    }

    #[test]
    fn a_file_name_cannot_forge_a_line_or_an_event() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("a\nid: 7\r\x1b[2J.log"), "x\n").unwrap();
        let name = format!("{}/a\\nid: 7\\r\\u{{1b}}[2J.log", folder.path().display());
        let tail = tail(folder.path(), "files = '*.log'").unwrap();
        assert_eq!(read(&mut *listen(&tail), 1), format!("{name} | x\n"));
    }

    #[test]
    fn the_first_client_gets_the_last_lines_of_each_file() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["a.log", "b.log", "c.log"] {
            std::fs::write(folder.path().join(name), "x\ny\n").unwrap();
        }
        // Repeated, because the order of reading and subscribing could be a race.
        for _ in 0..200 {
            let tail = tail(folder.path(), "files = '*.log'\nlast = 2\nnames = false").unwrap();
            assert_eq!(first_lines(&tail), "x\ny\nx\ny\nx\ny\n");
        }
    }

    /// Returns what the first client receives after the files were read.
    fn first_lines(tail: &Tail) -> String {
        let mut first = listen(tail);
        let topic = tail.source.topic.lock().clone().unwrap();
        while topic.publish(&Batch::default(), tail.source.history).number < 6 {
            thread::yield_now();
        }
        read(&mut *first, 1)
    }

    #[test]
    fn empty_lines_count_towards_the_memory_limit() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("a.log"), "\n".repeat(500_000)).unwrap();
        let table =
            "files = 'a.log'\nformat = 'sse'\nlast = 1000000\nhistory = 1000000\nhistory_bytes = 1000000";
        let tail = tail(folder.path(), table).unwrap();
        let _first = listen(&tail);
        let topic = tail.source.topic.lock().clone().unwrap();
        while topic.publish(&Batch::default(), tail.source.history).number < 500_000 {
            thread::yield_now();
        }
        let (mut second, mut stored) = (listen(&tail), 0);
        let mut cx = Context::from_waker(Waker::noop());
        while let Poll::Ready(Some(Ok(piece))) = second.poll_piece(&mut cx, Instant::now(), u64::MAX) {
            stored += piece.length();
        }
        assert!(stored < 2_000_000, "{stored} bytes are stored");
    }

    #[test]
    fn only_allowed_clients_can_read_logs() {
        let folder = tempfile::tempdir().unwrap();
        let far = [192, 0, 2, 1];
        assert_eq!(request(&tail(folder.path(), "files = 'a'").unwrap(), far).status(), 403);
        assert_eq!(
            request(&tail(folder.path(), "files = 'a'\nallow = 'anyone'").unwrap(), far).status(),
            200
        );
    }

    #[test]
    fn all_errors_are_reported_at_once() {
        let folder = tempfile::tempdir().unwrap();
        let table = "files = ['**/a', '[', 'fine']\nheartbeat = '1ms'";
        assert_eq!(tail(folder.path(), table).unwrap_err().len(), 3);
    }
}
