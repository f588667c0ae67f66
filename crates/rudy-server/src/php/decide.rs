//! What a path of a PHP site leads to: a script that is run, a file that is sent, or nothing.
//!
//! Nothing here touches the file system: it is asked what there is at a path, and the answer decides.

use rudy_http::semantics::path::PathBelow;

use crate::files::Kind;

/// What answers a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Plan {
    /// A script that the path names, by the bytes of the path up to its end. What follows is its `PATH_INFO`.
    RunNamed(usize),
    /// A script that stands for the path, by its own path beneath the root: `/blog/index.php`.
    Run(String),
    /// A file, or the page of a folder.
    Send,
    /// A folder was asked for without its slash.
    AddSlash,
    /// 404.
    Nothing,
}

/// How the names of scripts end. Byte for byte: php-fpm itself runs no other (`security.limit_extensions`).
const SCRIPT: &str = ".php";

/// The front controller, and the script of a folder.
const INDEX: &str = "/index.php";

/// The page of a folder that has no script.
const PAGE: &str = "/index.html";

/// Decides what answers for a path; `kind` says what there is at one, an error being passed on.
///
/// 1. The first part that ends in `.php` and is a file is run; what follows it is its `PATH_INFO`, which may have names that
///    begin with a dot. A part that is no file ends the search: `/upload/evil.jpg/x.php` runs nothing that was uploaded.
/// 2. A file whose name begins with a dot is not found, as in `files`.
/// 3. A file that is no script is sent, by the files handler, which keeps source back.
/// 4. A folder is its `index.php`, or its `index.html`.
/// 5. Everything else is the front controller's, `/index.php`, with an empty `PATH_INFO`: it finds in `REQUEST_URI` what was
///    asked for, as behind `try_files` of nginx and `RewriteRule` of Apache, for which most apps are written. So is a path
///    that no folder can hold, such as one with an encoded slash.
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
        return Ok(Plan::Nothing);
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
        _ => Plan::Nothing,
    })
}

/// Where the first script in a path ends.
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

    use rudy_http::semantics::path::RequestPath;

    use super::*;

    /// What the sites of these tests hold.
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

    /// What a path below the route `/m/*` leads to.
    fn plan(files: &[&str], path: &str) -> Plan {
        let kind = |path: &str| Ok::<_, Infallible>(kind_in(files, path));
        let path = format!("/m{path}");
        decide(RequestPath::parse(&path).unwrap().below(2), kind).unwrap()
    }

    fn run(script: &str) -> Plan {
        Plan::Run(script.to_owned())
    }

    fn named(script: &str) -> Plan {
        Plan::RunNamed(script.len())
    }

    #[test]
    fn a_path_leads_to_a_script_a_file_or_nothing() {
        let front = || run("/index.php");
        for (path, expected) in [
            ("/", front()),
            ("", Plan::AddSlash),
            ("/index.php", named("/index.php")),
            ("/index.php/path/info", named("/index.php")),
            ("/index.php/path/", named("/index.php")),
            ("/index.php/", named("/index.php")),
            ("/index.php/other.php", named("/index.php")),
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
            ("/v1.php/app.php/x", named("/v1.php/app.php")),
            ("/v1.php/style.css", Plan::Send),
            ("/v1.php/missing", front()),
            ("/wiki/A%2FB", front()),
            ("/a%2Findex.php", front()),
            ("/a%5C..%5Cb", front()),
            ("/caf%E9", front()),
            ("/index.php/A%2FB", named("/index.php")),
        ] {
            assert_eq!(plan(FILES, path), expected, "{path}");
        }
    }

    #[test]
    fn without_a_front_controller_what_is_not_there_is_not_found() {
        let files = &["a.php", "style.css", "pages/index.html"];
        for (path, expected) in [
            ("/", Plan::Nothing),
            ("/missing", Plan::Nothing),
            ("/missing.php", Plan::Nothing),
            ("/a.php/x", named("/a.php")),
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
            named("/index.php"),
            "a name in PATH_INFO is none of a file"
        );
        for path in ["/.env", "/%2eenv", "/.git/config", "/.hidden/index.php/x"] {
            assert_eq!(plan(FILES, path), Plan::Nothing, "{path}");
        }
        for path in ["/config.php", "/config.php/", "//c%6Fnfig.ph%70", "/x/../config.php"] {
            assert_eq!(plan(FILES, path), named("/config.php"), "{path}");
        }
        assert_eq!(plan(FILES, "/.well-known/security.txt"), Plan::Send);
    }

    #[test]
    fn what_was_uploaded_is_not_run_under_the_name_of_a_script() {
        for path in ["/upload/evil.jpg/x.php", "/upload/evil.jpg/index.php", "/upload/evil.jpg/"] {
            assert_eq!(plan(FILES, path), run("/index.php"), "{path}");
        }
        assert_eq!(plan(FILES, "/upload/evil.jpg"), Plan::Send);
    }

    #[test]
    fn an_error_is_passed_on() {
        let path = RequestPath::parse("/a").unwrap();
        assert_eq!(decide(path.below(0), |_| Err("no right to look")), Err("no right to look"));
    }

    proptest::proptest! {
        /// Whatever is asked for: what is run is a script that is there, and what is sent is no script and not hidden.
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
                Plan::AddSlash | Plan::Nothing => {}
            }
        }
    }
}
