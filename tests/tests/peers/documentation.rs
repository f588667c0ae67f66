//! Fetches all files of the rendered documentation over few connections, and compares them byte by byte. `cargo xtask nightly` builds
//! the documentation first.

use rudy_tests::prelude::*;

const CONNECTIONS: usize = 4;

#[test]
fn the_documentation_of_this_workspace_is_served_unchanged() {
    needs!(long());
    let target = binary().parent().and_then(Path::parent).expect("rudy is in target/PROFILE");
    let documentation = target.join("doc");
    if !documentation.join("rudy_http/index.html").is_file() {
        skip("the documentation is not built; `cargo doc --workspace --no-deps` builds it");
        return;
    }
    let fetched = fetch_all(&documentation);
    assert!(fetched > 500, "only {fetched} files");
}

/// Serves the folder and fetches all of its files. Returns their number.
fn fetch_all(folder: &Path) -> usize {
    let mut files = Vec::new();
    collect(folder, &mut files);
    let server = Server::folder(folder);
    let address = server.address();
    thread::scope(|scope| {
        for part in files.chunks(files.len().div_ceil(CONNECTIONS)) {
            scope.spawn(move || fetch(address, folder, part));
        }
    });
    files.len()
}

/// Collects all files below `folder` except hidden ones, which are not served.
fn collect(folder: &Path, files: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("the folder can be read") {
        let entry = entry.expect("the folder can be read");
        if entry.file_name().as_encoded_bytes().starts_with(b".") {
            continue;
        }
        if entry.file_type().expect("the folder can be read").is_dir() {
            collect(&entry.path(), files);
        } else {
            files.push(entry.path());
        }
    }
}

/// Fetches the files on one connection, and each `index.html` by the name of its folder as well.
fn fetch(address: SocketAddr, root: &Path, files: &[PathBuf]) {
    let mut connection = Connection::open(address);
    let mut compare = |target: &str, content: &[u8]| {
        let response = connection.get(target, &["Host: localhost"]);
        assert_eq!(response.status, 200, "{target}");
        assert!(response.body == content, "{target} has other content");
    };
    for file in files {
        let content = fs::read(file).expect("the file can be read");
        let target = target(file.strip_prefix(root).expect("the file is below the root"));
        compare(&target, &content);
        if let Some(folder) = target.strip_suffix("/index.html") {
            compare(&format!("{folder}/"), &content);
        }
    }
}

/// Returns the target for a path. All bytes except unreserved characters are encoded (RFC 3986 §2.3).
fn target(path: &Path) -> String {
    let encode = |&byte: &u8| match byte {
        b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' | b'/' => char::from(byte).into(),
        _ => format!("%{byte:02X}"),
    };
    std::iter::once("/".to_owned()).chain(path.as_os_str().as_encoded_bytes().iter().map(encode)).collect()
}
