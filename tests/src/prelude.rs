//! What nearly all tests use, for `use rudy_tests::prelude::*;`.

pub use std::collections::{BTreeMap, HashMap};
pub use std::fs::{self, File, OpenOptions, Permissions};
pub use std::io::{BufRead, BufReader, Read, Write};
pub use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
pub use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
pub use std::os::unix::net::{UnixDatagram, UnixListener, UnixStream};
pub use std::path::{Path, PathBuf};
pub use std::process::{Child, Command, Stdio};
pub use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
pub use std::sync::mpsc::{self, Receiver, Sender, channel};
pub use std::sync::{Arc, Mutex};
pub use std::thread;
pub use std::time::{Duration, Instant};

pub use rudy_net::engine::Model;
pub use rustix::process::{Pid, Signal, geteuid, kill_process, test_kill_process};
pub use serde_json::Value;

pub use crate::fastcgi::{App, Peer, variable};
pub use crate::{
    Certificates, Connection, Curl, Files, Folder, Http2Connection, Load, Output, PATIENCE, ReservedPort,
    Response, Rudy, Running, Server, TlsClient, Upstream, UpstreamPeer, UpstreamRequest, Valid,
    assert_contains, assert_members, binary, children, engines, eventually, fastcgi_info, free_port,
    lines_of, listen, long, needs, program, skip, skip_unsupported, wait_until,
};
