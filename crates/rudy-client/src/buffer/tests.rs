//! Tests with real files, and with readers and writers of varying speed.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::sync::mpsc::{Sender, channel};
use std::task::Waker;

use http_body::{Body, Frame, SizeHint};
use proptest::prelude::*;
use rudy_service::RequestBodyError;
use tempfile::TempDir;
use tokio::runtime::{Builder, Runtime};

use super::*;

/// Buffers with a separate folder for their files.
struct Setup {
    buffers: Buffers,
    folder: TempDir,
    runtime: Runtime,
}

impl Setup {
    fn new(options: &Options) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let dir = options.dir.clone().unwrap_or_else(|| folder.path().to_owned());
        let buffers = Buffers::new(Options { dir: Some(dir), ..*options });
        // One blocking thread, so that a test can delay writes.
        let runtime = Builder::new_current_thread().max_blocking_threads(1).build().unwrap();
        Self { buffers, folder, runtime }
    }

    /// Waits for room, including writes.
    fn room(&self, buffer: &mut Buffer) -> Result<(), BufferError> {
        self.runtime.block_on(poll_fn(|cx| buffer.poll_room(cx)))
    }

    /// Polls for room once.
    fn room_now(&self, buffer: &mut Buffer) -> Poll<Result<(), BufferError>> {
        let _runtime = self.runtime.enter();
        buffer.poll_room(&mut Context::from_waker(Waker::noop()))
    }

    fn read(&self, buffer: &mut Buffer) -> Option<Bytes> {
        self.runtime.block_on(poll_fn(|cx| buffer.poll_piece(cx))).map(Result::unwrap)
    }

    fn read_all(&self, buffer: &mut Buffer) -> Vec<u8> {
        std::iter::from_fn(|| self.read(buffer)).flatten().collect()
    }

    fn read_stored(&self, stored: &mut StoredBody) -> Vec<u8> {
        let piece = || self.runtime.block_on(poll_fn(|cx| stored.poll_piece(cx))).map(Result::unwrap);
        std::iter::from_fn(piece).flatten().collect()
    }

    /// Blocks the blocking pool until the sender is dropped.
    fn occupy_pool(&self) -> Sender<()> {
        let (sender, receiver) = channel();
        self.runtime.spawn_blocking(move || receiver.recv());
        sender
    }

    fn counts(&self) -> (u64, u64) {
        (self.buffers.in_memory(), self.buffers.on_disk())
    }

    /// Returns the counts at the end; dropping the runtime waits for the blocking pool.
    fn counts_at_the_end(self) -> (u64, u64) {
        assert_eq!(self.folder.path().read_dir().unwrap().count(), 0, "files have no names");
        drop(self.runtime);
        (self.buffers.in_memory(), self.buffers.on_disk())
    }
}

fn piece(content: u8, bytes: usize) -> Bytes {
    vec![content; bytes].into()
}

#[derive(Debug, Clone)]
enum Step {
    Push(usize),
    PushSlice(usize),
    Poll,
    Wait,
    Read(usize),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        (0..100_000_usize).prop_map(Step::Push),
        (0..5000_usize).prop_map(Step::Push),
        (0..5000_usize).prop_map(Step::PushSlice),
        Just(Step::Poll),
        Just(Step::Wait),
        (1..4_usize).prop_map(Step::Read),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn bytes_come_out_in_order_at_any_pace(
        steps in proptest::collection::vec(step(), 1..80),
        limit in prop_oneof![Just(None), Just(Some(0)), Just(Some(150_000))],
    ) {
        let setup = Setup::new(&Options { memory: 100_000, ..Options::default() });
        let mut buffer = Buffer::new(&setup.buffers, limit);
        let (mut model, mut next) = (VecDeque::new(), 0_usize);
        let mut fresh = |bytes| {
            next += bytes;
            // A period that is not a power of two, so that no two pieces are equal.
            (0..=250_u8).cycle().skip((next - bytes) % 251).take(bytes).collect::<Vec<_>>()
        };
        for step in steps {
            match step {
                Step::Push(bytes) => {
                    let bytes = fresh(bytes);
                    model.extend(bytes.iter().copied());
                    buffer.push(bytes.into());
                }
                Step::PushSlice(bytes) => {
                    let bytes = fresh(bytes);
                    model.extend(bytes.iter().copied());
                    buffer.push_slice(&bytes);
                }
                Step::Wait if limit.is_none() => setup.room(&mut buffer).unwrap(),
                Step::Poll | Step::Wait => drop(setup.room_now(&mut buffer)),
                Step::Read(pieces) => {
                    for read in std::iter::from_fn(|| setup.read(&mut buffer)).take(pieces) {
                        let expected: Vec<_> = model.drain(..read.len()).collect();
                        prop_assert_eq!(read, expected);
                    }
                }
            }
            prop_assert_eq!(buffer.len(), model.len() as u64);
        }
        prop_assert_eq!(setup.read_all(&mut buffer), Vec::from(model));
        prop_assert!(buffer.is_empty());
        drop(buffer);
        prop_assert_eq!(setup.counts_at_the_end(), (0, 0));
    }
}

#[test]
fn beyond_64_kib_a_body_is_written_to_a_file_until_it_is_read() {
    let setup = Setup::new(&Options::default());
    let mut buffer = Buffer::new(&setup.buffers, None);
    buffer.push(piece(1, 65_536));
    assert!(setup.room_now(&mut buffer).is_ready());
    assert_eq!(setup.counts(), (65_536, 0));
    buffer.push_slice(&[2]);
    setup.room(&mut buffer).unwrap();
    buffer.push_slice(&[3; 10]);
    setup.room(&mut buffer).unwrap();
    assert_eq!((setup.counts(), buffer.len()), ((10, 65_537), 65_547));
    let expected = [piece(1, 65_536), piece(2, 1), piece(3, 10)].concat();
    assert_eq!(setup.read_all(&mut buffer), expected);
    // The only blocking thread closes the file before it runs this task.
    setup.runtime.block_on(setup.runtime.spawn_blocking(|| ())).unwrap();
    assert_eq!(setup.counts(), (0, 0), "while the body continues");
}

#[test]
fn bytes_over_the_memory_limit_of_all_bodies_are_written_to_a_file() {
    let setup = Setup::new(&Options { memory: 1000, ..Options::default() });
    let [mut first, mut second] = [(); 2].map(|()| Buffer::new(&setup.buffers, None));
    let mut third = Buffer::new(&setup.buffers, Some(0));
    first.push(piece(1, 800));
    setup.room(&mut first).unwrap();
    second.push(piece(2, 800));
    setup.room(&mut second).unwrap();
    assert_eq!(setup.counts(), (800, 800));
    third.push(piece(3, 800));
    assert!(setup.room_now(&mut third).is_pending(), "no file, no error");
    assert_eq!(setup.read(&mut third).unwrap(), piece(3, 800));
    assert!(setup.room_now(&mut third).is_ready());
    setup.buffers.set(Options { memory: 0, dir: None, total: Some(0) });
    assert_eq!(setup.read_all(&mut second), piece(2, 800), "files stay where they are");
    assert!(setup.room_now(&mut second).is_ready(), "an empty buffer always has room");
}

#[test]
fn a_buffer_without_a_file_has_room_again_after_a_read() {
    let setup = Setup::new(&Options::default());
    let mut buffer = Buffer::new(&setup.buffers, Some(0));
    buffer.push(piece(1, 40_000));
    assert!(setup.room_now(&mut buffer).is_ready());
    buffer.push(piece(2, 40_000));
    assert!(setup.room_now(&mut buffer).is_pending());
    assert_eq!(setup.read(&mut buffer).unwrap(), piece(1, 40_000));
    assert!(setup.room_now(&mut buffer).is_ready());
    assert_eq!(setup.counts(), (40_000, 0));
}

#[test]
fn bytes_can_be_read_while_they_are_written() {
    let setup = Setup::new(&Options::default());
    let pool = setup.occupy_pool();
    let mut buffer = Buffer::new(&setup.buffers, None);
    buffer.push(piece(1, 50_000));
    buffer.push(piece(2, 50_000));
    assert!(setup.room_now(&mut buffer).is_pending());
    buffer.push(piece(3, 1000));
    assert_eq!(setup.read(&mut buffer).unwrap(), piece(1, 50_000));
    assert_eq!(setup.counts(), (100_000, 0), "the write still holds the bytes that were read");
    drop(pool);
    setup.room(&mut buffer).unwrap();
    assert_eq!((setup.counts(), buffer.len()), ((1000, 100_000), 51_000));
    assert_eq!(setup.read_all(&mut buffer), [piece(2, 50_000), piece(3, 1000)].concat());
}

#[test]
fn a_buffer_dropped_during_a_write_releases_its_reservations() {
    let setup = Setup::new(&Options::default());
    let pool = setup.occupy_pool();
    let mut buffer = Buffer::new(&setup.buffers, None);
    buffer.push(piece(1, 70_000));
    assert!(setup.room_now(&mut buffer).is_pending());
    drop(buffer);
    assert_eq!(setup.counts(), (70_000, 0), "the write holds the bytes until it ends");
    drop(pool);
    assert_eq!(setup.counts_at_the_end(), (0, 0));
}

#[test]
fn no_bytes_are_lost_if_the_disk_is_full() {
    let nowhere = Options { dir: Some("/nowhere".into()), ..Options::default() };
    let total = Options { total: Some(100_000), ..Options::default() };
    for (options, limit, stored, expected_error) in [
        (total, None, 70_000, "more than 100000B in all files (`buffer_total`)"),
        (Options::default(), Some(100_000), 70_000, "more than 100000B for one body (`response_buffer`)"),
        (nowhere, None, 0, "/nowhere: No such file or directory (os error 2)"),
    ] {
        let setup = Setup::new(&options);
        let mut buffer = Buffer::new(&setup.buffers, limit);
        if stored > 0 {
            buffer.push(piece(1, stored));
            setup.room(&mut buffer).unwrap();
        }
        buffer.push(piece(2, 70_000));
        assert_eq!(setup.room(&mut buffer).unwrap_err().to_string(), expected_error);
        assert!(setup.room_now(&mut buffer).is_pending(), "{expected_error}: from now on in memory");
        assert_eq!(setup.counts(), (70_000, stored as u64), "{expected_error}");
        buffer.push(piece(3, 10));
        let expected = [piece(1, stored), piece(2, 70_000), piece(3, 10)].concat();
        assert_eq!(setup.read_all(&mut buffer), expected, "{expected_error}");
        assert!(setup.room_now(&mut buffer).is_ready(), "{expected_error}");
        drop(buffer);
        assert_eq!(setup.counts_at_the_end(), (0, 0), "{expected_error}");
    }
}

#[test]
fn responses_that_are_not_read_leave_room_for_requests() {
    let setup = Setup::new(&Options { total: Some(300_000), ..Options::default() });
    let mut response = Buffer::new(&setup.buffers, Some(1 << 30));
    response.push(piece(1, 140_000));
    setup.room(&mut response).unwrap();
    response.push(piece(2, 70_000));
    let error = setup.room(&mut response).unwrap_err().to_string();
    assert_eq!(error, "more than 150000B in all files (half of `buffer_total`)");
    let stored = store(&setup, &mut body(Some(150_000), (0..3).map(|n| piece(n, 50_000))));
    assert_eq!(stored.map(|stored| stored.length()).map_err(|error| error.to_string()), Ok(150_000));
    let expected = [piece(1, 140_000), piece(2, 70_000)].concat();
    assert_eq!(setup.read_all(&mut response), expected);
}

#[test]
fn a_full_file_is_used_again_after_it_was_read() {
    let setup = Setup::new(&Options::default());
    let mut buffer = Buffer::new(&setup.buffers, Some(100_000));
    buffer.push(piece(1, 70_000));
    setup.room(&mut buffer).unwrap();
    buffer.push(piece(2, 70_000));
    assert!(matches!(setup.room(&mut buffer), Err(BufferError::Limit(100_000))));
    let read: Vec<u8> = std::iter::from_fn(|| setup.read(&mut buffer).filter(|piece| piece[0] == 1))
        .take(2)
        .flatten()
        .collect();
    assert_eq!(read, piece(1, 70_000));
    setup.room(&mut buffer).unwrap();
    assert_eq!((setup.buffers.in_memory(), buffer.len()), (0, 70_000));
    assert_eq!(setup.read_all(&mut buffer), piece(2, 70_000));
}

/// A request body in pieces.
struct Pieces {
    pieces: VecDeque<Result<Bytes, RequestBodyError>>,
    length: Option<u64>,
}

impl Body for &mut Pieces {
    type Data = Bytes;
    type Error = RequestBodyError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, RequestBodyError>>> {
        Poll::Ready(self.pieces.pop_front().map(|piece| piece.map(Frame::data)))
    }

    fn size_hint(&self) -> SizeHint {
        self.length.map_or_else(SizeHint::default, SizeHint::with_exact)
    }
}

fn store(setup: &Setup, pieces: &mut Pieces) -> Result<StoredBody, StoreError> {
    setup.runtime.block_on(setup.buffers.store(pieces))
}

fn store_error(setup: &Setup, pieces: &mut Pieces) -> StoreError {
    store(setup, pieces).map(|stored| stored.length()).unwrap_err()
}

fn body(length: Option<u64>, pieces: impl IntoIterator<Item = Bytes>) -> Pieces {
    Pieces { pieces: pieces.into_iter().map(Ok).collect(), length }
}

#[test]
fn a_whole_body_can_be_read_more_than_once() {
    for (count, bytes, in_file) in
        [(0_u8, 0, 0), (1, 10, 0), (100, 100, 0), (7, 30_000, 180_000), (3, 100_000, 300_000)]
    {
        let setup = Setup::new(&Options::default());
        let pieces: Vec<_> = (0..count).map(|n| piece(n, bytes)).collect();
        let whole = pieces.concat();
        for length in [None, Some(whole.len() as u64)] {
            let mut stored = store(&setup, &mut body(length, pieces.clone())).unwrap();
            assert_eq!(stored.length(), whole.len() as u64);
            assert_eq!(setup.counts(), (stored.length() - in_file, in_file));
            assert_eq!(setup.read_stored(&mut stored), whole);
            stored.rewind();
            let _ = setup.runtime.block_on(poll_fn(|cx| stored.poll_piece(cx)));
            stored.rewind();
            assert_eq!(setup.read_stored(&mut stored), whole, "{count} pieces of {bytes} bytes");
            drop(stored);
            setup.runtime.block_on(setup.runtime.spawn_blocking(|| ())).unwrap();
            assert_eq!(setup.counts(), (0, 0));
        }
    }
}

#[test]
fn a_body_of_one_piece_is_not_copied() {
    let setup = Setup::new(&Options::default());
    let small = piece(1, 20);
    let mut stored = store(&setup, &mut body(Some(20), [small.clone()])).unwrap();
    let read = setup.runtime.block_on(poll_fn(|cx| stored.poll_piece(cx))).unwrap().unwrap();
    assert_eq!(read.as_ptr(), small.as_ptr());
}

#[test]
fn a_body_without_space_is_rejected_unread_if_its_length_is_known() {
    let setup = Setup::new(&Options { total: Some(100_000), ..Options::default() });
    for (length, unread) in [(Some(200_000), 4), (None, 0)] {
        let mut body = body(length, (0..4).map(|n| piece(n, 50_000)));
        let error = store_error(&setup, &mut body);
        assert!(matches!(error, StoreError::Buffer(BufferError::Total(100_000))), "{error}");
        assert_eq!(body.pieces.len(), unread);
    }
    assert_eq!(setup.counts_at_the_end(), (0, 0));
}

#[test]
fn an_incomplete_body_is_dropped() {
    let setup = Setup::new(&Options::default());
    let mut body = body(None, [piece(1, 100_000)]);
    body.pieces.push_back(Err(RequestBodyError::PeerGone));
    let error = store_error(&setup, &mut body);
    assert!(matches!(error, StoreError::Body(RequestBodyError::PeerGone)), "{error}");
    assert_eq!(setup.counts_at_the_end(), (0, 0));
}
