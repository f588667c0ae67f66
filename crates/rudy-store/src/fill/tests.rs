//! A writer and its readers, step by step.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use bytes::Bytes;
use rudy_cache::Key;
use tempfile::TempDir;

use super::*;
use crate::disk::{Access, read_at};
use crate::tests::stored;
use crate::{Options, Store};

#[derive(Default)]
struct Count(AtomicUsize);

impl Wake for Count {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

/// A reader, what it has read, and how often it was woken.
struct Reader {
    fill: FillReader,
    data: Vec<u8>,
    wakes: Arc<Count>,
}

impl Reader {
    fn of(fill: &Fill) -> Self {
        Self { fill: fill.reader().unwrap(), data: Vec::new(), wakes: Arc::default() }
    }

    fn poll(&mut self, max: u64) -> Poll<Option<Result<u64, FillAborted>>> {
        let waker = Waker::from(Arc::clone(&self.wakes));
        self.fill.poll_piece(&mut Context::from_waker(&waker), max).map(|piece| {
            piece.map(|piece| {
                piece.map(|piece| {
                    let data = bytes(&piece);
                    assert!(!data.is_empty() && data.len() as u64 <= max);
                    self.data.extend_from_slice(&data);
                    data.len() as u64
                })
            })
        })
    }

    /// Reads all that is there, and returns the end if there is one.
    fn read(&mut self) -> Option<Result<(), FillAborted>> {
        loop {
            match self.poll(10_000) {
                Poll::Pending => return None,
                Poll::Ready(None) => return Some(Ok(())),
                Poll::Ready(Some(Err(error))) => return Some(Err(error)),
                Poll::Ready(Some(Ok(_))) => {}
            }
        }
    }

    fn wakes(&self) -> usize {
        self.wakes.0.swap(0, Ordering::Relaxed)
    }
}

fn bytes(piece: &Piece) -> Bytes {
    match piece {
        Piece::Bytes(bytes) => bytes.clone(),
        Piece::File { file, offset, length } => {
            let mut buffer = vec![0; usize::try_from(*length).unwrap()];
            assert_eq!(read_at(file, &mut buffer, *offset, Access::Blocking), Ok(buffer.len()));
            buffer.into()
        }
    }
}

fn store() -> (TempDir, Store) {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(Options::new(folder.path())).unwrap();
    (folder, store)
}

fn key() -> Key {
    Key::new(true, b"a", b"/b")
}

fn fill(store: &Store, length: Option<u64>) -> Fill {
    store.fill(&key(), stored(&[("etag", "\"a\"")], &[]), length, store.epoch())
}

fn is_empty(folder: &TempDir) -> bool {
    let temporary = std::fs::read_dir(folder.path().join("temporary")).unwrap();
    temporary.count() == 0 && std::fs::read_dir(folder.path().join("objects")).unwrap().count() == 0
}

fn data(length: u64) -> Bytes {
    (0..length).map(|at| (at % 251).to_le_bytes()[0]).collect()
}

#[test]
fn readers_stream_a_body_that_grows_from_memory_into_a_file() {
    let (_folder, store) = store();
    let mut fill = fill(&store, None);
    let mut readers = [Reader::of(&fill), Reader::of(&fill)];
    let all = data(300_000);
    for (number, chunk) in all.chunks(7000).enumerate() {
        assert!(readers[0].read().is_none());
        fill.write(Bytes::copy_from_slice(chunk));
        assert_eq!(readers[0].wakes(), 1, "woken by the event");
        if number % 5 == 0 {
            assert!(readers[1].read().is_none());
        }
    }
    let mut late = Reader::of(&fill);
    assert_eq!((fill.readers(), fill.received()), (3, 300_000));
    let Finished::Stored(object) = fill.finish().unwrap() else { panic!("it is storable") };
    for reader in readers.iter_mut().chain([&mut late]) {
        assert_eq!(reader.read(), Some(Ok(())));
        assert_eq!(reader.data, all);
    }
    assert_eq!(object.body().read_at(0, usize::MAX).unwrap(), all);
}

#[test]
fn a_small_body_remains_readable_after_its_end() {
    let (_folder, store) = store();
    let mut fill = fill(&store, Some(100));
    let mut reader = Reader::of(&fill);
    fill.write(data(100).slice(..60));
    fill.write(data(100).slice(60..));
    assert_eq!(reader.poll(50), Poll::Ready(Some(Ok(50))));
    let Finished::Stored(object) = fill.finish().unwrap() else { panic!("it is storable") };
    assert_eq!(reader.read(), Some(Ok(())));
    assert_eq!(reader.data, data(100));
    assert_eq!(object.body().read_at(0, 1000).unwrap(), data(100));
}

#[test]
fn an_aborted_transfer_leaves_nothing() {
    for length in [10, 100_000] {
        let (folder, store) = store();
        let mut fill = fill(&store, None);
        let mut reader = Reader::of(&fill);
        fill.write(data(length));
        assert_eq!(reader.poll(4), Poll::Ready(Some(Ok(4))));
        drop(fill);
        assert_eq!(reader.read(), Some(Err(FillAborted::Incomplete)), "after what was received");
        assert_eq!(reader.data, data(length));
        assert!(is_empty(&folder));
    }
}

#[test]
fn a_body_of_another_length_than_declared_is_not_stored() {
    for (declared, sent) in [(10, 9), (10, 11), (10, 0), (0, 1), (100_000, 99_999), (100_000, 100_001)] {
        let (folder, store) = store();
        let mut fill = fill(&store, Some(declared));
        let mut reader = Reader::of(&fill);
        data(sent).chunks(7).for_each(|chunk| fill.write(Bytes::copy_from_slice(chunk)));
        assert_eq!(fill.finish().unwrap_err(), WrongLength { expected: declared, received: sent });
        assert_eq!(reader.read(), Some(Err(FillAborted::Incomplete)));
        assert_eq!(reader.data, data(sent.min(declared)), "never more than declared");
        assert!(is_empty(&folder));
    }
}

#[test]
fn a_broken_transfer_stores_its_part() {
    for (length, sent) in [(100, 40), (200_000, 150_000)] {
        let (_folder, store) = store();
        let text = length.to_string();
        let stored = stored(&[("etag", "\"a\""), ("content-length", &text)], &[]);
        let mut fill = store.fill(&key(), stored, Some(length), store.epoch());
        let mut reader = Reader::of(&fill);
        fill.write(data(length).slice(..sent));
        let object = fill.interrupt().unwrap();
        assert_eq!(reader.read(), Some(Err(FillAborted::Incomplete)));
        assert_eq!(object.body().read_at(0, usize::MAX).unwrap(), data(length).slice(..sent));
        let span = rudy_cache::Span { start: 0, length: sent as u64 };
        assert_eq!(
            *object.stored().content(),
            rudy_cache::Content::Parts { size: length, spans: vec![span] }
        );
    }
    let (folder, store) = store();
    let mut fill = fill(&store, None);
    fill.write(data(10));
    assert!(fill.interrupt().is_none(), "its size is not known");
    assert!(is_empty(&folder));
}

#[test]
fn a_body_that_is_too_long_passes_through_a_window() {
    let folder = tempfile::tempdir().unwrap();
    let options = Options { object_bytes_max: 100_000, ..Options::new(folder.path()) };
    let store = Store::open(options).unwrap();
    let mut fill = fill(&store, None);
    let mut readers = [Reader::of(&fill), Reader::of(&fill)];
    let writer = Arc::new(Count::default());
    let waker = Waker::from(Arc::clone(&writer));
    let mut context = Context::from_waker(&waker);
    let all = data(5_000_000);
    let mut late = None;
    for chunk in all.chunks(90_000) {
        while fill.poll_ready(&mut context).is_pending() {
            assert!(readers[0].read().is_none());
            assert_eq!(writer.0.load(Ordering::Relaxed), 0, "the slower reader has read nothing");
            assert_eq!(readers[0].fill.position(), fill.received());
            assert!(readers[1].poll(90_001).is_ready() && readers[1].poll(90_001).is_ready());
            while writer.0.swap(0, Ordering::Relaxed) == 0 {
                assert!(readers[1].poll(90_001).is_ready());
            }
        }
        fill.write(Bytes::copy_from_slice(chunk));
        if fill.received() == 180_000 {
            assert!(!fill.is_stored());
            late = Some(Reader::of(&fill));
        }
        if let Some(late) = &mut late {
            assert!(late.read().is_none());
        }
    }
    assert!(fill.received() - readers[1].fill.position() <= WINDOW_BYTES + 2 * 90_000);
    assert!(fill.reader().is_none(), "its beginning is gone");
    assert!(matches!(fill.finish(), Ok(Finished::NotStored(NotKept::TooLong))));
    for reader in readers.iter_mut().chain(&mut late) {
        assert_eq!(reader.read(), Some(Ok(())));
        assert_eq!(reader.data, all);
    }
    assert!(is_empty(&folder));
}

#[test]
fn a_body_may_have_a_limit_of_its_own() {
    let folder = tempfile::tempdir().unwrap();
    let options = Options { object_bytes_max: 100_000, ..Options::new(folder.path()) };
    let store = Store::open(options).unwrap();
    for (most, length, expected) in
        [(200_000, Some(150_000), true), (50_000, None, false), (50_000, Some(60_000), false)]
    {
        let mut fill = store.fill_at_most(&key(), stored(&[], &[]), length, store.epoch(), most);
        fill.write(data(60_000));
        assert_eq!(fill.is_stored(), expected, "{most}");
    }
}

#[test]
fn a_reader_that_stalls_while_others_wait_is_aborted() {
    let folder = tempfile::tempdir().unwrap();
    let options = Options { object_bytes_max: 100_000, ..Options::new(folder.path()) };
    let store = Store::open(options).unwrap();
    let mut fill = fill(&store, None);
    let (mut quick, mut slow) = (Reader::of(&fill), Reader::of(&fill));
    let mut context = Context::from_waker(Waker::noop());
    while fill.poll_ready(&mut context).is_ready() {
        fill.write(data(90_000));
        assert!(quick.read().is_none());
    }
    fill.abort_stalled();
    assert_eq!(slow.poll(1), Poll::Ready(Some(Ok(1))), "it moves");
    fill.abort_stalled();
    assert!(fill.poll_ready(&mut context).is_pending(), "it has moved since the last call");
    fill.abort_stalled();
    assert!(fill.poll_ready(&mut context).is_ready());
    assert_eq!(slow.read(), Some(Err(FillAborted::Stalled)));
    while fill.poll_ready(&mut context).is_ready() {
        fill.write(data(90_000));
    }
    fill.abort_stalled();
    fill.abort_stalled();
    assert!(fill.poll_ready(&mut context).is_pending(), "no other one waits");
    assert!(quick.read().is_none());
    assert!(matches!(fill.finish(), Ok(Finished::NotStored(NotKept::TooLong))));
    assert_eq!((quick.read(), slow.read()), (Some(Ok(())), Some(Err(FillAborted::Stalled))));
}

#[test]
fn only_long_bodies_that_are_not_stored_wait_for_readers() {
    let folder = tempfile::tempdir().unwrap();
    let writer = Store::open(Options::new(folder.path())).unwrap();
    let reader = Store::open(Options::new(folder.path())).unwrap();
    for (length, waits) in [(None, true), (Some(WINDOW_BYTES + 1), true), (Some(WINDOW_BYTES), false)] {
        assert_eq!(fill(&reader, length).waits_for_readers(), waits, "{length:?}");
        assert!(!fill(&writer, length).waits_for_readers());
    }
}
