//! The files of the servers: a site for [`HOST`](super::HOST), another site for all other hosts, and a file outside of both.

use std::fs;
use std::io;
use std::path::Path;

/// A request that follows each spelling. A server that responds to it has kept the connection and found the end of the spelling.
pub(super) const MARKER: &str = "GET /marker.txt HTTP/1.1\r\nHost: example.test\r\nConnection: close\r\n\r\n";

/// The variables that `app.php` prints and [`send`](super::send()) parses.
pub const APP_VARIABLES: [&str; 5] = ["SCRIPT_NAME", "PATH_INFO", "QUERY_STRING", "REQUEST_URI", "HTTP_HOST"];

const APP: &str = r#"<?php header("Content-Type: text/plain");
echo "@@app\n";
foreach (["SCRIPT_NAME", "PATH_INFO", "QUERY_STRING", "REQUEST_URI", "HTTP_HOST"] as $name)
    echo $name, "=", rawurlencode($_SERVER[$name] ?? ""), "\n";
echo "BODY=", strlen(file_get_contents("php://input")), "\n";"#;

const CLOSED: &str = r#"<?php echo "@@closed\n";"#;

const FILES: &[(&str, &str)] = &[
    ("site/marker.txt", "@@marker\n"),
    ("site/smuggled.txt", "@@smuggled\n"),
    ("site/index.html", "@@index\n"),
    ("site/docs/index.html", "@@index-of-docs\n"),
    ("site/docs/a b.txt", "@@file\n"),
    ("site/docs/ü.txt", "@@file\n"),
    ("site/docs/app.php", APP),
    ("site/app.php", APP),
    ("site/app.php.bak", APP),
    ("site/upper.PHP", APP),
    ("site/secret/key.txt", "@@closed\n"),
    ("site/secret/app.php", CLOSED),
    ("site/secret/index.html", "@@closed\n"),
    ("other/docs/a b.txt", "@@other\n"),
    ("other/index.html", "@@other\n"),
    ("other/marker.txt", "@@other\n"),
    ("other/smuggled.txt", "@@smuggled\n"),
    ("outside.txt", "@@outside\n"),
];

/// Writes the folder `site` for requests to [`HOST`](super::HOST), in which `secret` is closed and `*.php` is executed; the
/// folder `other` for all other requests; and a file outside of both that no response may contain.
pub fn write(folder: &Path) -> io::Result<()> {
    for (name, text) in FILES {
        let path = folder.join(name);
        fs::create_dir_all(path.parent().unwrap_or(folder))?;
        fs::write(path, text)?;
    }
    Ok(())
}
