//! With real processes: shells, which every system has.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Read, Seek};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use super::*;

/// Longer than anything here takes, for a test that fails.
const PATIENCE: Duration = Duration::from_secs(30);

/// What the users of the processes are told.
#[derive(Debug, PartialEq, Eq)]
enum Told {
    Up(MemberId, PathBuf),
    Retire(MemberId),
    Down(MemberId, String),
    Unavailable(String),
}

struct Users {
    told: Mutex<Sender<Told>>,
    requests: u64,
    idle_since: Option<Instant>,
}

impl Members for Users {
    fn up(&self, id: MemberId, socket: &Path) {
        self.tell(Told::Up(id, socket.to_owned()));
    }

    fn retire(&self, id: MemberId) {
        self.tell(Told::Retire(id));
    }

    fn down(&self, id: MemberId, why: &str) {
        self.tell(Told::Down(id, why.to_owned()));
    }

    fn unavailable(&self, why: &str) {
        self.tell(Told::Unavailable(why.to_owned()));
    }

    fn requests(&self, _: MemberId) -> u64 {
        self.requests
    }

    fn idle_since(&self, _: MemberId) -> Option<Instant> {
        self.idle_since
    }
}

impl Users {
    fn tell(&self, what: Told) {
        // A test that has seen enough listens no more.
        let _ = self.told.lock().unwrap().send(what);
    }
}

/// An app, its users and its log.
struct Rig {
    processes: Processes,
    told: Receiver<Told>,
    log: ErrorLog,
    file: File,
    _users: Arc<Users>,
}

impl Rig {
    fn start(options: ProcessOptions) -> Self {
        Self::with(options, 0, None)
    }

    fn with(options: ProcessOptions, requests: u64, idle_since: Option<Instant>) -> Self {
        let (sender, told) = channel();
        let users = Arc::new(Users { told: Mutex::new(sender), requests, idle_since });
        let file = tempfile::tempfile().unwrap();
        let log = ErrorLog::to(file.try_clone().unwrap()).unwrap();
        let weak: Weak<dyn Members> = Arc::downgrade(&(users.clone() as Arc<dyn Members>));
        let processes = Processes::start(options, &log, weak).unwrap();
        Self { processes, told, log, file, _users: users }
    }

    fn next(&self) -> Told {
        self.told.recv_timeout(PATIENCE).expect("the users of the processes are told something")
    }

    /// The next process that is up.
    fn up(&self) -> (MemberId, PathBuf) {
        match self.next() {
            Told::Up(id, socket) => (id, socket),
            told => panic!("{told:?}"),
        }
    }

    /// Stops all; what the log says, without the times.
    fn stop(mut self) -> String {
        self.processes.stop();
        self.log.close();
        let mut text = String::new();
        self.file.rewind().unwrap();
        self.file.read_to_string(&mut text).unwrap();
        let lines = text.lines().map(|line| line.split_once(' ').map_or(line, |(_, rest)| rest));
        lines.map(|line| format!("{line}\n")).collect()
    }
}

/// One process, at once: a shell that runs this.
fn shell(script: &str) -> ProcessOptions {
    ProcessOptions {
        name: "shop".to_owned(),
        command: ["/bin/sh", "-c", script].map(str::to_owned).to_vec(),
        min: 1,
        max: 1,
        environment: BTreeMap::new(),
        user: None,
        folder: None,
        idle_time: None,
        retire_time: PATIENCE,
        stop_time: PATIENCE,
    }
}

#[test]
fn a_process_can_be_connected_to_before_it_accepts() {
    let rig = Rig::start(shell("exec sleep 1000"));
    let (id, socket) = rig.up();
    assert_eq!(id, 1);
    let mut connection = UnixStream::connect(&socket).unwrap();
    rig.processes.stop();
    assert_eq!(rig.next(), Told::Retire(1));
    assert!(matches!(rig.next(), Told::Down(1, _)));
    // Nobody but the app had the socket: with the app its connections end.
    let end = connection.read(&mut [0]);
    assert!(matches!(end, Ok(0)) || end.is_err(), "{end:?}");
    assert!(!socket.parent().unwrap().exists());
}
