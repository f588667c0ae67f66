//! A writer and its readers in threads of their own, in random orders. One that is never woken is a deadlock, which `shuttle` reports.

use std::future::poll_fn;
use std::sync::LazyLock;

use rudy_test_sync::{block_on, check, join, thread};

use super::*;
use crate::Store;
use crate::disk::{Access, read_at};
use crate::tests::{folder_in_memory, open_in_model, stored};

/// Number of orders per test. Each takes about 200 microseconds.
const ORDERS: usize = 1_000;

/// The bytes of a piece. The second one is beyond what a small object has, and the third one beyond half of the window.
const PIECE_BYTES: [usize; 3] = [40_000, 40_000, 600 * 1024];

/// Pieces, each with the same bytes all over.
static PIECES: LazyLock<Vec<Bytes>> = LazyLock::new(|| {
    let piece = |(number, length): (u8, &usize)| Bytes::from(vec![number; *length]);
    (1..).zip(&PIECE_BYTES).map(piece).collect()
});

/// How a reader ends: what it has read, and the error.
type Read = (u64, Result<(), FillAborted>);

fn fill(store: &Store) -> Fill {
    store.fill(&Key::new(true, b"a", b"/b"), stored(&[], &[]), None, store.epoch())
}

/// Reads to the end, and checks every piece against `all`.
fn read(mut reader: FillReader, all: &[Bytes]) -> Read {
    loop {
        let position = reader.position();
        match block_on(poll_fn(|cx| reader.poll_piece(cx, u64::MAX))) {
            None => return (position, Ok(())),
            Some(Err(error)) => return (position, Err(error)),
            Some(Ok(piece)) => check_piece(&piece, position, all),
        }
    }
}

/// Compares the first and the last byte of a piece.
fn check_piece(piece: &Piece, position: u64, all: &[Bytes]) {
    let byte = |at: u64| match piece {
        Piece::Bytes(bytes) => bytes[usize::try_from(at).unwrap()],
        Piece::File { file, offset, .. } => {
            let mut byte = [0];
            assert_eq!(read_at(file, &mut byte, offset + at, Access::Blocking), Ok(1));
            byte[0]
        }
    };
    for at in [0, piece.length() - 1] {
        let mut rest = position + at;
        let expected = all.iter().find(|piece| {
            let is_here = rest < piece.len() as u64;
            rest -= if is_here { 0 } else { piece.len() as u64 };
            is_here
        });
        assert_eq!(Some(byte(at)), expected.map(|piece| piece[0]), "at {position} + {at}");
    }
}

/// Returns a number of threads that read to an end, each at its position.
fn readers(fill: &Fill, count: usize, all: &'static [Bytes], expected: Read) -> Vec<thread::JoinHandle<()>> {
    let reader = |_| {
        let reader = fill.reader().expect("the body has not begun");
        thread::spawn(move || assert_eq!(read(reader, all), expected))
    };
    (0..count).map(reader).collect()
}

fn length(pieces: &[Bytes]) -> u64 {
    pieces.iter().map(|piece| piece.len() as u64).sum()
}

/// Found in the model: an end that wakes no reader; a reader that notes its waker after it has released the lock; a file that replaces the
/// memory before it has the same bytes.
#[test]
fn readers_get_a_body_that_grows_from_memory_into_a_file() {
    let folder = folder_in_memory();
    check(
        move || {
            let store = open_in_model(&folder);
            let all = &PIECES[..2];
            let mut fill = fill(&store);
            let mut threads = readers(&fill, 2, all, (length(all), Ok(())));
            let source = fill.source();
            threads.push(thread::spawn(move || {
                let late = source.reader().expect("the body is stored");
                assert_eq!(read(late, &PIECES[..2]), (length(&PIECES[..2]), Ok(())));
            }));
            write(&mut fill, all);
            assert!(matches!(fill.finish(), Ok(Finished::Stored(_))));
            join(threads);
        },
        ORDERS,
    );
}

/// Found in the model: a transfer that breaks, or is dropped, and wakes no reader, or ends readers before they have read what was received.
#[test]
fn readers_get_what_was_received_before_a_transfer_breaks() {
    for is_dropped in [false, true] {
        let folder = folder_in_memory();
        check(
            move || {
                let store = open_in_model(&folder);
                let all = &PIECES[..2];
                let mut fill = fill(&store);
                let threads = readers(&fill, 2, all, (length(all), Err(FillAborted::Incomplete)));
                write(&mut fill, all);
                if is_dropped {
                    drop(fill);
                } else {
                    let _ = fill.interrupt();
                }
                join(threads);
            },
            ORDERS,
        );
    }
}

/// Writes pieces as soon as there is room for them.
fn write(fill: &mut Fill, pieces: &[Bytes]) {
    for piece in pieces {
        block_on(poll_fn(|cx| fill.poll_ready(cx)));
        fill.write(piece.clone());
    }
}

/// Found in the model: data that wakes no reader; a reader that reads on, or ends, and does not wake the writer; one that ends, and keeps
/// what it has not read.
#[test]
fn a_writer_waits_for_the_slowest_reader_that_is_left() {
    static ALL: LazyLock<Vec<Bytes>> = LazyLock::new(|| vec![PIECES[2].clone(); 4]);
    let folder = folder_in_memory();
    check(
        move || {
            let _writer = open_in_model(&folder);
            let store = open_in_model(&folder);
            let mut fill = fill(&store);
            let mut threads = readers(&fill, 2, &ALL, (length(&ALL), Ok(())));
            let mut leaves = fill.reader().expect("the body has not begun");
            threads.push(thread::spawn(move || {
                let piece = block_on(poll_fn(|cx| leaves.poll_piece(cx, u64::MAX)));
                assert!(matches!(piece, Some(Ok(_))));
            }));
            write(&mut fill, &ALL);
            assert!(matches!(fill.finish(), Ok(Finished::NotStored(NotKept::ReadOnly))));
            join(threads);
        },
        ORDERS,
    );
}

/// Found in the model: an abort that keeps what the reader has not read.
#[test]
fn a_reader_that_stalls_delays_no_other_one() {
    static ALL: LazyLock<Vec<Bytes>> = LazyLock::new(|| vec![PIECES[2].clone(); 3]);
    let folder = folder_in_memory();
    check(
        move || {
            let _writer = open_in_model(&folder);
            let store = open_in_model(&folder);
            let mut fill = fill(&store);
            let mut stalled = fill.reader().expect("the body has not begun");
            let threads = readers(&fill, 1, &ALL, (length(&ALL), Ok(())));
            for piece in &*ALL {
                while block_on(poll_fn(|cx| Poll::Ready(fill.poll_ready(cx)))).is_pending() {
                    fill.abort_stalled();
                    thread::yield_now();
                }
                fill.write(piece.clone());
            }
            assert!(matches!(fill.finish(), Ok(Finished::NotStored(NotKept::ReadOnly))));
            let piece = block_on(poll_fn(|cx| stalled.poll_piece(cx, u64::MAX)));
            assert!(matches!(piece, Some(Err(FillAborted::Stalled))), "{piece:?}");
            join(threads);
        },
        ORDERS,
    );
}
