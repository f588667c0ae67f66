//! What many tests use, for `use rudy_tests::prelude::*;`.

pub use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet, VecDeque};
pub use std::ffi::OsStr;
pub use std::fs::{self, File, OpenOptions, Permissions};
pub use std::io::{BufRead, BufReader, Read, Write};
pub use std::net::{IpAddr, Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
pub use std::num::NonZeroUsize;
pub use std::os::fd::OwnedFd;
pub use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};
pub use std::os::unix::net::{UnixDatagram, UnixListener, UnixStream};
pub use std::os::unix::process::CommandExt;
pub use std::path::{Path, PathBuf};
pub use std::process::{Child, Command, Stdio};
pub use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
pub use std::sync::mpsc::{self, Receiver, Sender, channel};
pub use std::sync::{Arc, Barrier, Mutex};
pub use std::thread::{self, JoinHandle};
pub use std::time::{Duration, Instant, SystemTime};

pub use bytes::{Bytes, BytesMut};
pub use rudy_net::engine::Model;
pub use rudy_observe::Process;
pub use rustix::process::{Pid, Signal, geteuid, kill_process, test_kill_process};
pub use serde_json::{Value, json};

pub use crate::fastcgi::{App, Peer, Received, variable};
pub use crate::http2::{END, END_HEADERS, block, encode, kind};
pub use crate::http3::{h3_frame, h3_head, h3_headers, h3_kind, h3_stream, varint};
pub use crate::{
    Builder, Certificates, Collector, Connection, Curl, CurlResult, Exchange, Files, Folder, Gate, Hosts,
    Http2Connection, Http2Response, Http2Upstream, Http3Client, Http3Connection, Load, NameServer, Output,
    PATIENCE, Pebble, Random, ReservedPort, Response, Rudy, Running, Server, Tally, TlsClient, TlsConnection,
    TlsServer, Upstream, UpstreamPeer, UpstreamRequest, Valid, Weblog, assert_contains, assert_members,
    binary, cargo_index, cargo_source, children, descriptors, descriptors_of, engines, eventually,
    exchange_unix, fastcgi_info, free_port, gate, go_program, is_long, lines_of, listen, long, memory_of,
    needs, program, rustup_home, skip, skip_unsupported, small_disk, succeeds, wait_until, weblog,
    without_openat2, xtask,
};
