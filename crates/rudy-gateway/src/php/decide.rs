//! Decides what a path of a PHP site refers to: a script to run, a file to send, or nothing. Pure: a function
//! that is passed in accesses the file system.

use rudy_files::Kind;
use rudy_message::semantics::path::PathBelow;

/// How to respond to a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Plan {
    /// Run the script that the path names. The number is the length of the path up to its end; the rest is
    /// its `PATH_INFO`.
    RunNamed(usize),
    /// Run a script that the path does not name, by its path below the root: `/blog/index.php`.
    Run(String),
    /// Send a file, or the index page of a folder.
    Send,
    /// Redirect to the path with a trailing slash: it names a folder.
    AddSlash,
    /// Respond with 404.
    NotFound,
}

/// The suffix of scripts, case-sensitive: php-fpm itself runs no others (`security.limit_extensions`).
pub(super) const SCRIPT: &str = ".php";

/// The front controller, and the script of a folder.
const INDEX: &str = "/index.php";

/// The index page of a folder without a script.
const PAGE: &str = "/index.html";

/// Decides how to respond to a path; `kind` returns the type of the file at a path, and its errors are passed
/// on.
///
/// 1. The first segment that ends with `.php` and is a file is run. The rest is its `PATH_INFO`, which may
///    have names that begin with a dot. A segment that is another file ends the search:
///    `/upload/evil.jpg/x.php` runs no uploaded file.
/// 2. A file whose name begins with a dot is not found, as in `files`.
/// 3. A file that is no script is sent by the files handler, which never sends source.
/// 4. A folder is its `index.php`, or its `index.html`.
/// 5. All other paths go to the front controller `/index.php` with an empty `PATH_INFO`. It finds the
///    requested path in `REQUEST_URI`, as with `try_files` of nginx and `RewriteRule` of Apache, for which
///    most apps are written. This includes paths that no folder can contain, such as one with an encoded
///    slash.
pub(super) fn decide<E>(
    path: PathBelow<'_>,
    kind: impl Fn(&str) -> Result<Option<Kind>, E>,
) -> Result<Plan, E> {
    if let Some(end) = named_script(path, &kind)?
        && !path.is_hidden_until(end)
    {
        return Ok(Plan::RunNamed(end));
    }
    if path.is_hidden() {
        return Ok(Plan::NotFound);
    }
    if let Ok(name) = path.in_folder() {
        match kind(name)? {
            Some(Kind::File) if !path.names_directory() => return Ok(Plan::Send),
            Some(Kind::Directory) => {
                if let Some(index) = index_of(name.trim_end_matches('/'), &kind)? {
                    return Ok(if path.names_directory() { index } else { Plan::AddSlash });
                }
            }
            _ => {}
        }
    }
    Ok(match kind(INDEX)? {
        Some(Kind::File) => Plan::Run(INDEX.to_owned()),
        _ => Plan::NotFound,
    })
}

/// Returns the end of the first script in a path.
fn named_script<E>(
    path: PathBelow<'_>,
    kind: impl Fn(&str) -> Result<Option<Kind>, E>,
) -> Result<Option<usize>, E> {
    let bytes = path.as_bytes();
    let slashes = (1..bytes.len()).filter(|at| bytes[*at] == b'/');
    for end in slashes.chain([bytes.len()]).filter(|end| bytes[..*end].ends_with(SCRIPT.as_bytes())) {
        let Ok(name) = path.part_in_folder(0..end) else { return Ok(None) };
        match kind(name)? {
            Some(Kind::File) => return Ok(Some(end)),
            Some(Kind::Directory) => {}
            _ => return Ok(None),
        }
    }
    Ok(None)
}

fn index_of<E>(folder: &str, kind: impl Fn(&str) -> Result<Option<Kind>, E>) -> Result<Option<Plan>, E> {
    for name in [INDEX, PAGE] {
        let path = format!("{folder}{name}");
        if kind(&path)? == Some(Kind::File) {
            return Ok(Some(if name == INDEX { Plan::Run(path) } else { Plan::Send }));
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use rudy_message::semantics::path::RequestPath;

    use super::*;

    /// The files of the test site.
    const FILES: &[&str] = &[
        "index.php",
        "style.css",
        "config.php",
        "config.php~",
        "config.php.bak",
        "config.php.gz",
        "CONFIG.PHP",
        "old.php5",
        "view.phtml",
        "app.phar",
        ".env",
        ".hidden/index.php",
        ".well-known/security.txt",
        "upload/evil.jpg",
        "both/index.php",
        "both/index.html",
        "pages/index.html",
        "v1.php/app.php",
        "v1.php/style.css",
        "no-index/picture.png",
    ];

    fn kind_in(files: &[&str], path: &str) -> Option<Kind> {
        let path = path.trim_matches('/');
        let is_folder = |file: &&str| path.is_empty() || file.starts_with(&format!("{path}/"));
        if files.contains(&path) {
            return Some(Kind::File);
        }
        files.iter().any(is_folder).then_some(Kind::Directory)
    }

    /// Decides for a path below the route `/m/*`.
    fn plan(files: &[&str], path: &str) -> Plan {
        let kind = |path: &str| Ok::<_, Infallible>(kind_in(files, path));
        let path = format!("/m{path}");
        decide(RequestPath::parse(&path).unwrap().below(2), kind).unwrap()
    }

    fn run(script: &str) -> Plan {
        Plan::Run(script.to_owned())
    }

    fn run_named(script: &str) -> Plan {
        Plan::RunNamed(script.len())
    }

    #[test]
    fn a_path_names_a_script_a_file_or_the_front_controller() {
        let front = || run("/index.php");
        for (path, expected) in [
            ("/", front()),
            ("", Plan::AddSlash),
            ("/index.php", run_named("/index.php")),
            ("/index.php/path/info", run_named("/index.php")),
            ("/index.php/path/", run_named("/index.php")),
            ("/index.php/", run_named("/index.php")),
            ("/index.php/other.php", run_named("/index.php")),
            ("/style.css", Plan::Send),
            ("/style.css/", front()),
            ("/style.css/x.php", front()),
            ("/both", Plan::AddSlash),
            ("/both/", run("/both/index.php")),
            ("/both/index.html", Plan::Send),
            ("/pages/", Plan::Send),
            ("/pages", Plan::AddSlash),
            ("/no-index/", front()),
            ("/no-index", front()),
            ("/2026/november", front()),
            ("/missing.php", front()),
            ("/missing.php/x", front()),
            ("/v1.php/app.php/x", run_named("/v1.php/app.php")),
            ("/v1.php/style.css", Plan::Send),
            ("/v1.php/missing", front()),
            ("/wiki/A%2FB", front()),
            ("/a%2Findex.php", front()),
            ("/a%5C..%5Cb", front()),
            ("/caf%E9", front()),
            ("/index.php/A%2FB", run_named("/index.php")),
        ] {
            assert_eq!(plan(FILES, path), expected, "{path}");
        }
    }

    #[test]
    fn without_a_front_controller_missing_files_are_not_found() {
        let files = &["a.php", "style.css", "pages/index.html"];
        for (path, expected) in [
            ("/", Plan::NotFound),
            ("/missing", Plan::NotFound),
            ("/missing.php", Plan::NotFound),
            ("/a.php/x", run_named("/a.php")),
            ("/style.css", Plan::Send),
            ("/pages/", Plan::Send),
        ] {
            assert_eq!(plan(files, path), expected, "{path}");
        }
    }

    #[test]
    fn no_spelling_sends_a_hidden_file_or_a_script() {
        assert_eq!(
            plan(FILES, "/index.php/.NET"),
            run_named("/index.php"),
            "PATH_INFO may contain hidden names"
        );
        for path in ["/.env", "/%2eenv", "/.git/config", "/.hidden/index.php/x"] {
            assert_eq!(plan(FILES, path), Plan::NotFound, "{path}");
        }
        for path in ["/config.php", "/config.php/", "//c%6Fnfig.ph%70", "/x/../config.php"] {
            assert_eq!(plan(FILES, path), run_named("/config.php"), "{path}");
        }
        assert_eq!(plan(FILES, "/.well-known/security.txt"), Plan::Send);
    }

    #[test]
    fn an_uploaded_file_is_not_run_as_a_script() {
        for path in ["/upload/evil.jpg/x.php", "/upload/evil.jpg/index.php", "/upload/evil.jpg/"] {
            assert_eq!(plan(FILES, path), run("/index.php"), "{path}");
        }
        assert_eq!(plan(FILES, "/upload/evil.jpg"), Plan::Send);
    }

    #[test]
    fn an_error_is_passed_on() {
        let path = RequestPath::parse("/a").unwrap();
        assert_eq!(decide(path.below(0), |_| Err("permission denied")), Err("permission denied"));
    }

    proptest::proptest! {
        /// For any path: only an existing script runs, and no script or hidden file is sent.
        #[test]
        fn only_scripts_run(
            path in "(/(index[.]php|config[.]php|CONFIG[.]PHP|upload|evil[.]jpg|both|v1[.]php|style[.]css|[.]env|x|%70|~)){0,4}/?"
        ) {
            let parsed = RequestPath::parse(&path).unwrap();
            let below = parsed.below(0);
            let is_script = |name: &str| FILES.contains(&&name[1..]) && name.ends_with(SCRIPT);
            let kind = |path: &str| Ok::<_, Infallible>(kind_in(FILES, path));
            match decide(below, kind).unwrap() {
                Plan::RunNamed(end) => proptest::prop_assert!(is_script(below.part_in_folder(0..end).unwrap())),
                Plan::Run(script) => proptest::prop_assert!(is_script(&script)),
                Plan::Send => proptest::prop_assert!(!is_script(below.in_folder().unwrap()) && !below.is_hidden()),
                Plan::AddSlash | Plan::NotFound => {}
            }
        }
    }
}
