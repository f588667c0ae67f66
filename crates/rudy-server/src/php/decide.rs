//! What a path of a PHP site leads to: a script that is run, a file that is sent, or nothing.
//!
//! Nothing here touches the file system: it is asked what there is at a path, and the answer decides.

use rudy_http::semantics::path::RelativePath;

use crate::files::Kind;

/// What answers a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Plan {
    /// A script, by its path beneath the root, and what follows it in the path.
    Run {
        /// `blog/index.php`.
        script: String,
        /// `/2026/november`, or nothing.
        path_info: String,
    },
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
const INDEX: &str = "index.php";

/// The page of a folder that has no script.
const PAGE: &str = "index.html";

/// Decides what answers for a path; `kind` says what there is at one, an error being passed on.
///
/// 1. A name that begins with a dot is nobody's business, as in `files`.
/// 2. The first part that ends in `.php` and is a file is run; what follows it is its `PATH_INFO`. A part that is no
///    file ends the search: `/upload/evil.jpg/x.php` runs nothing that was uploaded.
/// 3. A file that is no script is sent, unless it may be source (`is_source`).
/// 4. A folder is its `index.php`, or its `index.html`.
/// 5. Everything else is the front controller's, `/index.php`, with an empty `PATH_INFO`: it finds in `REQUEST_URI` what was
///    asked for, as behind `try_files` of nginx and `RewriteRule` of Apache, for which most apps are written.
pub(super) fn decide<E>(
    path: &RelativePath,
    kind: impl Fn(&str) -> Result<Option<Kind>, E>,
) -> Result<Plan, E> {
    if path.is_hidden() {
        return Ok(Plan::Nothing);
    }
    if let Some(plan) = script(path, &kind)? {
        return Ok(plan);
    }
    let name = path.as_str();
    match kind(name)? {
        Some(Kind::File) if !path.names_directory() => {
            return Ok(if is_source(name) { Plan::Nothing } else { Plan::Send });
        }
        Some(Kind::Directory) => {
            if let Some(index) = index_of(name, &kind)? {
                return Ok(if path.names_directory() { index } else { Plan::AddSlash });
            }
        }
        _ => {}
    }
    Ok(match kind(INDEX)? {
        Some(Kind::File) => run(INDEX, ""),
        _ => Plan::Nothing,
    })
}

/// The first script in a path.
fn script<E>(path: &RelativePath, kind: impl Fn(&str) -> Result<Option<Kind>, E>) -> Result<Option<Plan>, E> {
    let whole = path.as_str();
    let ends = whole.match_indices('/').map(|(slash, _)| slash).chain([whole.len()]);
    for end in ends.filter(|end| whole[..*end].ends_with(SCRIPT)) {
        let (name, rest) = whole.split_at(end);
        match kind(name)? {
            Some(Kind::File) => {
                let slash = if path.names_directory() { "/" } else { "" };
                return Ok(Some(run(name, &format!("{rest}{slash}"))));
            }
            Some(Kind::Directory) => {}
            _ => return Ok(None),
        }
    }
    Ok(None)
}

fn index_of<E>(folder: &str, kind: impl Fn(&str) -> Result<Option<Kind>, E>) -> Result<Option<Plan>, E> {
    for name in [INDEX, PAGE] {
        let path = if folder.is_empty() { name.to_owned() } else { format!("{folder}/{name}") };
        if kind(&path)? == Some(Kind::File) {
            return Ok(Some(if name == INDEX { run(&path, "") } else { Plan::Send }));
        }
    }
    Ok(None)
}

fn run(script: &str, path_info: &str) -> Plan {
    Plan::Run { script: script.to_owned(), path_info: path_info.to_owned() }
}

/// Whether a file may hold PHP that nobody is to read: passwords of databases stand in it. That are scripts under a name that
/// is not run (`X.PHP`, `x.php5`, `x.phtml`), copies that editors and people leave (`x.php~`, `x.php.bak`) and compressed
/// ones (`x.php.gz`). On a file system that does not tell cases apart, `X.PHP` is `x.php`.
fn is_source(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or_default().to_ascii_lowercase();
    [".php", ".phtml", ".phar"].iter().any(|ending| name.contains(ending))
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

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
        let is_folder = |file: &&str| path.is_empty() || file.starts_with(&format!("{path}/"));
        if files.contains(&path) {
            return Some(Kind::File);
        }
        files.iter().any(is_folder).then_some(Kind::Directory)
    }

    fn plan(files: &[&str], path: &str) -> Plan {
        let kind = |path: &str| Ok::<_, Infallible>(kind_in(files, path));
        decide(&RelativePath::parse(path).unwrap(), kind).unwrap()
    }

    #[test]
    fn a_path_leads_to_a_script_a_file_or_nothing() {
        let front = || run("index.php", "");
        for (path, expected) in [
            ("/", front()),
            ("", Plan::AddSlash),
            ("/index.php", front()),
            ("/index.php/path/info", run("index.php", "/path/info")),
            ("/index.php/path/", run("index.php", "/path/")),
            ("/index.php/", run("index.php", "/")),
            ("/index.php/other.php", run("index.php", "/other.php")),
            ("/style.css", Plan::Send),
            ("/style.css/", front()),
            ("/style.css/x.php", front()),
            ("/both", Plan::AddSlash),
            ("/both/", run("both/index.php", "")),
            ("/both/index.html", Plan::Send),
            ("/pages/", Plan::Send),
            ("/pages", Plan::AddSlash),
            ("/no-index/", front()),
            ("/no-index", front()),
            ("/2026/november", front()),
            ("/missing.php", front()),
            ("/missing.php/x", front()),
            ("/v1.php/app.php/x", run("v1.php/app.php", "/x")),
            ("/v1.php/style.css", Plan::Send),
            ("/v1.php/missing", front()),
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
            ("/a.php/x", run("a.php", "/x")),
            ("/style.css", Plan::Send),
            ("/pages/", Plan::Send),
        ] {
            assert_eq!(plan(files, path), expected, "{path}");
        }
    }

    #[test]
    fn nothing_that_may_be_source_is_sent() {
        for path in [
            "/config.php~",
            "/config.php.bak",
            "/config.php.gz",
            "/CONFIG.PHP",
            "/old.php5",
            "/view.phtml",
            "/app.phar",
            "/.env",
            "/.git/config",
            "/index.php/.env",
        ] {
            assert_eq!(plan(FILES, path), Plan::Nothing, "{path}");
        }
        // Nor anything by a spelling that leads to a script.
        for (path, script) in [
            ("/config.php", "config.php"),
            ("/config.php/", "config.php"),
            ("//c%6Fnfig.ph%70", "config.php"),
        ] {
            assert!(matches!(plan(FILES, path), Plan::Run { script: run, .. } if run == script), "{path}");
        }
        assert_eq!(plan(FILES, "/.well-known/security.txt"), Plan::Send);
    }

    #[test]
    fn what_was_uploaded_is_not_run_under_the_name_of_a_script() {
        for path in ["/upload/evil.jpg/x.php", "/upload/evil.jpg/index.php", "/upload/evil.jpg/"] {
            assert_eq!(plan(FILES, path), run("index.php", ""), "{path}");
        }
        assert_eq!(plan(FILES, "/upload/evil.jpg"), Plan::Send);
    }

    #[test]
    fn an_error_is_passed_on() {
        let path = RelativePath::parse("/a").unwrap();
        assert_eq!(decide(&path, |_| Err("no right to look")), Err("no right to look"));
    }

    proptest::proptest! {
        /// Whatever is asked for: what is sent is a file that holds no source, what is run is a script that is there.
        #[test]
        fn only_scripts_run_and_no_source_is_sent(
            path in "(/(index[.]php|config[.]php|CONFIG[.]PHP|upload|evil[.]jpg|both|v1[.]php|style[.]css|[.]env|x|%70|~)){0,4}/?"
        ) {
            let parsed = RelativePath::parse(&path).unwrap();
            match plan(FILES, &path) {
                Plan::Run { script, .. } => {
                    proptest::prop_assert!(FILES.contains(&script.as_str()) && script.ends_with(SCRIPT));
                }
                Plan::Send => proptest::prop_assert!(!is_source(parsed.as_str()) && !parsed.is_hidden()),
                Plan::AddSlash | Plan::Nothing => {}
            }
        }
    }
}
