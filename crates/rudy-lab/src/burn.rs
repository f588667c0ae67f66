//! A server that uses a given CPU time for each request. `calibrate` compares two of them, whose difference it therefore knows.

use std::io::{self, BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::thread;
use std::time::Duration;

use rudy_command::{Exit, report_error};
use rustix::time::{ClockId, clock_gettime};

/// The longest line of a request head.
const LINE_BYTES_MAX: u64 = 8192;

/// Serves until the process is ended, with a thread per connection. Each response is empty and uses this much CPU.
#[must_use]
pub fn burn(listen: SocketAddr, cpu: Duration) -> Exit {
    let listener = match TcpListener::bind(listen) {
        Ok(listener) => listener,
        Err(error) => return report_error(Exit::CannotRun, &format!("cannot listen on {listen}: {error}")),
    };
    // A connection that cannot be accepted has already been closed.
    for stream in listener.incoming().flatten() {
        // Without a thread, the stream is dropped, which closes the connection.
        let _ = thread::Builder::new().name("burn".to_owned()).spawn(move || serve(&stream, cpu));
    }
    Exit::Done
}

/// Responds to requests without a body until the client closes or sends something else.
fn serve(stream: &TcpStream, cpu: Duration) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let mut reader = BufReader::new(stream);
    while read_head(&mut reader)? {
        use_cpu(cpu);
        (&*stream).write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")?;
    }
    Ok(())
}

/// Reads a request head up to its empty line. Returns false at the end of the connection.
fn read_head(reader: &mut impl BufRead) -> io::Result<bool> {
    let mut line = Vec::new();
    loop {
        line.clear();
        io::Read::take(&mut *reader, LINE_BYTES_MAX).read_until(b'\n', &mut line)?;
        match line.as_slice() {
            b"\r\n" | b"\n" => return Ok(true),
            [.., b'\n'] => {}
            _ => return Ok(false),
        }
    }
}

/// Computes until the thread has used this much CPU time, which excludes the time in which other processes run.
fn use_cpu(time: Duration) {
    let end = used().saturating_add(time);
    while used() < end {
        std::hint::spin_loop();
    }
}

fn used() -> Duration {
    Duration::try_from(clock_gettime(ClockId::ThreadCPUTime)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_ends_at_its_empty_line() {
        let mut two = &b"GET / HTTP/1.1\r\nHost: a\r\n\r\nGET /b HTTP/1.1\r\n\r\n"[..];
        assert!(read_head(&mut two).unwrap() && read_head(&mut two).unwrap());
        assert!(!read_head(&mut two).unwrap());
        assert!(!read_head(&mut &b"GET / HTTP/1.1\r\nHost"[..]).unwrap());
        assert!(!read_head(&mut &vec![b'x'; 100_000][..]).unwrap());
    }

    #[test]
    fn uses_at_least_the_time() {
        let before = used();
        use_cpu(Duration::from_millis(2));
        assert!(used() >= before + Duration::from_millis(2));
    }
}
