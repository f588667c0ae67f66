//! Slow clients of a PHP site must not occupy children of php-fpm or delay other clients.

use rudy_tests::prelude::*;

use super::Fpm;

/// The number of clients of each kind: eight times as many as php-fpm has children.
const SLOW: usize = 16;

/// More than the socket buffers hold.
const RESPONSE_BYTES: usize = 8_000_000;

const UPLOAD_BYTES: usize = 1_000_000;

fn get(target: &str) -> Vec<u8> {
    format!("GET {target} HTTP/1.1\r\nHost: test\r\n\r\n").into_bytes()
}

fn begin_upload(server: &Server, target: &str, bytes: u64) -> Connection {
    let mut client = server.connect();
    let head = format!("POST {target} HTTP/1.1\r\nHost: test\r\nContent-Length: {bytes}\r\n\r\n");
    client.send(head.as_bytes());
    client
}

#[test]
fn slow_and_disconnecting_clients_occupy_no_child() {
    let Some(fpm) = Fpm::start("") else { return };
    let root = Folder::with(&[
        ("ok.php", "<?php echo 'fine';"),
        ("upload.php", "<?php echo strlen(file_get_contents('php://input'));"),
        ("large.php", &format!("<?php echo str_repeat('0123456789abcdef', {RESPONSE_BYTES} / 16);")),
    ]);
    let server = fpm.serve(root.path(), "/*", "");
    let mut quiet = times(&server);
    let mut uploads: Vec<_> =
        (0..SLOW).map(|_| begin_upload(&server, "/upload.php", UPLOAD_BYTES as u64)).collect();
    let mut readers: Vec<_> = (0..SLOW).map(|_| server.connect()).collect();
    for client in &mut readers {
        client.send(&get("/large.php"));
    }
    for number in 0..SLOW {
        // Alternating, so that the sockets hold different amounts of a response.
        let _vanishes = server.send(get(if number % 2 == 0 { "/large.php" } else { "/ok.php" }));
        begin_upload(&server, "/upload.php", UPLOAD_BYTES as u64).send(b"half a body");
    }
    let tenth = vec![b'a'; UPLOAD_BYTES / 10];
    let mut busy = Vec::new();
    for _ in 0..10 {
        for client in &mut uploads {
            client.send(&tenth);
        }
        busy.extend(times(&server));
    }
    for client in &mut uploads {
        assert_eq!(client.response().text(), UPLOAD_BYTES.to_string());
    }
    for client in &mut readers {
        let body = client.response().body;
        assert!(body == b"0123456789abcdef".repeat(RESPONSE_BYTES / 16), "{} bytes", body.len());
    }
    quiet.sort();
    busy.sort();
    println!("median and longest alone: {:?} {:?}", quiet[quiet.len() / 2], quiet.last());
    println!("median and longest beside slow clients: {:?} {:?}", busy[busy.len() / 2], busy.last());
}

/// Returns the times of some requests, which must all succeed.
fn times(server: &Server) -> Vec<Duration> {
    let mut client = server.connect();
    (0..20)
        .map(|_| {
            let begun = Instant::now();
            client.send(&get("/ok.php"));
            assert_eq!(client.response().status_and_text(), (200, "fine"));
            begun.elapsed()
        })
        .collect()
}

#[test]
fn events_of_a_script_arrive_separately() {
    let Some(fpm) = Fpm::start("php_admin_flag[output_buffering] = off") else { return };
    // The script continues when the test has received a line.
    let root = Folder::with(&[(
        "events.php",
        "<?php header('Content-Type: text/event-stream');
        for ($n = 0; $n < 5; $n++) {
            echo \"data: $n\\n\\n\"; @ob_flush(); flush();
            while (!file_exists(__DIR__ . \"/seen$n\")) { usleep(1000); clearstatcache(); }
        }",
    )]);
    let server = fpm.serve(root.path(), "/*", "");
    let mut client = server.send(get("/events.php"));
    let head = client.head();
    assert_eq!(head.status, 200);
    assert!(head.field("content-type").is_some_and(|media_type| media_type.starts_with("text/event-stream")));
    for n in 0..5 {
        assert_eq!(client.chunk(), Some(format!("data: {n}\n\n")));
        fs::write(root.path().join(format!("seen{n}")), "").expect("the folder is writable");
    }
    assert_eq!(client.chunk(), None);
}

const MIB: u64 = 1 << 20;

/// 2 GiB.
const LARGE_MIB: u64 = 2048;

/// The limit of Rudy's share of memory (PSS).
const PSS_MAX: u64 = 64 * MIB;

/// Measures the server's share of memory, once for every 16 MiB.
struct Memory {
    process: Process,
    peak: u64,
}

impl Memory {
    fn of(server: &Server) -> Self {
        Self { process: Process::open(server.pid()).expect("the server runs"), peak: 0 }
    }

    fn sample(&mut self) {
        self.peak = self.peak.max(self.process.pss_bytes().expect("the server runs as the same user"));
    }
}

#[test]
fn bodies_of_2_gib_need_little_memory() {
    needs!(long());
    let settings = "php_admin_value[post_max_size] = 4G\nphp_admin_flag[enable_post_data_reading] = off\n\
                    php_admin_flag[output_buffering] = off\nphp_admin_value[max_execution_time] = 0";
    let Some(fpm) = Fpm::start(settings) else { return };
    let root = Folder::with(&[
        (
            "upload.php",
            "<?php $in = fopen('php://input', 'rb'); $first = ''; $equal = 0;
            while (($block = stream_get_contents($in, 1 << 20)) !== '' && $block !== false) {
                if ($first === '') $first = $block;
                $equal += $block === $first;
            }
            echo $equal, ' ', md5($first);",
        ),
        (
            "download.php",
            "<?php $block = ''; for ($n = 0; strlen($block) < 1 << 20; $n++) $block .= md5($n, true);
            for ($n = 0; $n < 2048; $n++) { echo $block; }",
        ),
        (
            "block.php",
            "<?php $block = ''; for ($n = 0; strlen($block) < 1 << 20; $n++) $block .= md5($n, true);
            if ($_SERVER['QUERY_STRING'] === 'md5') echo md5($block); else echo $block;",
        ),
    ]);
    let server = fpm.serve_with(root.path(), "limits.body_bytes = \"4GiB\"\n", "response_timeout = \"10m\"");
    let block = server.get("/block.php").body;
    assert_eq!(block.len() as u64, MIB);
    let mut memory = Memory::of(&server);
    upload(&server, &block, &mut memory);
    download(&server, &block, &mut memory);
    println!("PSS at most {} KiB", memory.peak / 1024);
    assert!(memory.peak < PSS_MAX, "{} bytes", memory.peak);
}

fn upload(server: &Server, block: &[u8], memory: &mut Memory) {
    let mut client = begin_upload(server, "/upload.php", LARGE_MIB * MIB);
    for number in 0..LARGE_MIB {
        client.send(block);
        if number % 16 == 0 {
            memory.sample();
        }
    }
    // PHP writes the whole body to a file before the script gets the first byte.
    client.socket().set_read_timeout(Some(10 * PATIENCE)).expect("the time is not zero");
    let md5 = server.get("/block.php?md5");
    let response = client.response();
    memory.sample();
    assert_eq!(response.text(), format!("{LARGE_MIB} {}", md5.text()));
}

fn download(server: &Server, block: &[u8], memory: &mut Memory) {
    let mut client = server.send(get("/download.php"));
    assert_eq!(client.head().status, 200);
    wait_until("much of the response is in a file", || {
        memory.sample();
        largest_file_of(server) > 512 * MIB
    });
    let (mut rest, mut blocks) = (Vec::new(), 0);
    while client.chunk_bytes(&mut rest) {
        while rest.len() as u64 >= MIB {
            assert!(rest[..block.len()] == *block, "block {blocks}");
            rest.drain(..block.len());
            blocks += 1;
            if blocks % 16 == 0 {
                memory.sample();
            }
        }
    }
    assert_eq!((blocks, rest.len()), (LARGE_MIB, 0));
}

/// Returns the size of the largest file that the server has open.
fn largest_file_of(server: &Server) -> u64 {
    let files = fs::read_dir(format!("/proc/{}/fd", server.pid())).expect("the server runs").flatten();
    files.filter_map(|file| fs::metadata(file.path()).ok().map(|file| file.size())).max().unwrap_or(0)
}
