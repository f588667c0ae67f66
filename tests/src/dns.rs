//! A scripted name server.

use std::collections::HashMap;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};

/// A name server on a free UDP port of 127.0.0.1. Names that it does not know do not exist (NXDOMAIN). Stops when dropped.
pub struct NameServer {
    address: SocketAddr,
    zone: Arc<Mutex<Zone>>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct Zone {
    /// The TTL and the records of each name.
    names: HashMap<String, (u32, Vec<DnsRecord>)>,
    hangs: bool,
    is_stopping: bool,
}

/// A record of a name.
#[derive(Debug, Clone)]
pub enum DnsRecord {
    /// An address.
    A(Ipv4Addr),
    /// A host and a port of a service (RFC 2782).
    Srv {
        /// The lowest number comes first.
        priority: u16,
        /// Its share of the requests.
        weight: u16,
        /// The port.
        port: u16,
        /// The name of the host.
        target: &'static str,
    },
}

impl NameServer {
    /// Starts a name server without names.
    pub fn start() -> Self {
        let socket = UdpSocket::bind(("127.0.0.1", 0)).expect("a port is free");
        let (address, zone) =
            (socket.local_addr().expect("the socket is bound"), Arc::<Mutex<Zone>>::default());
        let thread = thread::spawn({
            let zone = zone.clone();
            move || serve(&socket, &zone)
        });
        Self { address, zone, thread: Some(thread) }
    }

    /// Returns the address.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Replaces the records of a name, with this TTL in seconds.
    pub fn set(&self, name: &str, ttl: u32, records: &[DnsRecord]) {
        lock(&self.zone).names.insert(name.to_owned(), (ttl, records.to_vec()));
    }

    /// Removes a name: then it does not exist.
    pub fn remove(&self, name: &str) {
        lock(&self.zone).names.remove(name);
    }

    /// Determines whether it leaves all queries without an answer.
    pub fn set_hanging(&self, hangs: bool) {
        lock(&self.zone).hangs = hangs;
    }
}

impl Drop for NameServer {
    fn drop(&mut self) {
        lock(&self.zone).is_stopping = true;
        // Wakes the thread.
        let socket = UdpSocket::bind(("127.0.0.1", 0)).expect("a port is free");
        let _ = socket.send_to(&[0], self.address);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn lock(zone: &Mutex<Zone>) -> MutexGuard<'_, Zone> {
    zone.lock().unwrap_or_else(PoisonError::into_inner)
}

fn serve(socket: &UdpSocket, zone: &Mutex<Zone>) {
    let mut query = [0; 512];
    loop {
        let (length, client) = socket.recv_from(&mut query).expect("the socket is open");
        let zone = lock(zone);
        if zone.is_stopping {
            return;
        }
        if !zone.hangs {
            let answer = zone.answer(&query[..length]).expect("the query has one question");
            socket.send_to(&answer, client).expect("an answer is small");
        }
    }
}

impl Zone {
    /// Returns the answer to a query (RFC 1035 §4.1); `None` if the query is malformed.
    fn answer(&self, query: &[u8]) -> Option<Vec<u8>> {
        let (name, question_end) = question(query)?;
        let kind = &query[question_end - 4..question_end - 2];
        let (ttl, records) = self.names.get(&name).map_or((0, &[][..]), |(ttl, records)| (*ttl, records));
        let encoded = records.iter().map(DnsRecord::encode);
        let matching: Vec<_> = encoded.filter(|(of_record, _)| of_record.to_be_bytes() == kind).collect();
        // A response, with recursion desired and available; the last digit of the second is RCODE.
        let code = if self.names.contains_key(&name) { 0x80 } else { 0x83 };
        let count = u8::try_from(matching.len()).ok()?;
        let mut answer =
            [&query[..2], &[0x81, code, 0, 1, 0, count, 0, 0, 0, 0], &query[12..question_end]].concat();
        for (kind, data) in matching {
            // The name is a pointer to that of the question; the class is IN.
            answer.extend([0xc0, 12]);
            answer.extend(kind.to_be_bytes());
            answer.extend([0, 1]);
            answer.extend(ttl.to_be_bytes());
            answer.extend(u16::try_from(data.len()).ok()?.to_be_bytes());
            answer.extend(data);
        }
        Some(answer)
    }
}

/// Returns the name in the question of a query, and where the question ends.
fn question(query: &[u8]) -> Option<(String, usize)> {
    let (mut labels, mut at) = (Vec::new(), 12);
    loop {
        let length = usize::from(*query.get(at)?);
        let label = query.get(at + 1..at + 1 + length)?;
        at += 1 + length;
        if length == 0 {
            return query.get(at..at + 4).map(|_| (labels.join("."), at + 4));
        }
        labels.push(String::from_utf8_lossy(label).to_ascii_lowercase());
    }
}

impl DnsRecord {
    /// Returns the type and the data.
    fn encode(&self) -> (u16, Vec<u8>) {
        match self {
            Self::A(address) => (1, address.octets().to_vec()),
            Self::Srv { priority, weight, port, target } => {
                let mut data = [priority, weight, port].map(|number| number.to_be_bytes()).concat();
                for label in target.split('.') {
                    data.push(u8::try_from(label.len()).expect("a label is short"));
                    data.extend(label.as_bytes());
                }
                data.push(0);
                (33, data)
            }
        }
    }
}
