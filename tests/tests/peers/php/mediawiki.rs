//! `MediaWiki` from Debian, with a slash and non-ASCII letters in page titles.

use rudy_tests::prelude::*;

use super::Fpm;

/// Copies the files that `cargo xtask setup` has unpacked into the folder `$2`, and installs a wiki there.
/// Debian has links to other parts of the system instead of the settings, extensions and uploads.
const INSTALL: &str = r#"set -e
cp -r "$1/usr/share/mediawiki" "$2/public"
cd "$2/public"
rm -rf LocalSettings.php config extensions extensions-core images
mkdir extensions images ../data
php maintenance/install.php --dbtype sqlite --dbpath "$2/data" --dbname wiki --confpath "$2/public" --skins MonoBook \
    --server http://wiki.test --scriptpath "" --pass a-long-password Wiki Ada
echo '$wgArticlePath = "/wiki/$1"; $wgUsePathInfo = true;' >> LocalSettings.php"#;

/// Installs a wiki with these pages, each a title and its text.
fn install(pages: &[(&str, &str)]) -> Option<Folder> {
    let unpacked = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/mediawiki");
    if !unpacked.join("usr/share/mediawiki/index.php").is_file() {
        skip("MediaWiki is missing; `cargo xtask setup` unpacks it");
        return None;
    }
    let php = program("php")?;
    let folder = Folder::new();
    let mut shell = Command::new("sh");
    Output::of(shell.args(["-c", INSTALL, "sh"]).arg(unpacked).arg(&folder)).succeeded();
    for (title, text) in pages {
        edit(&php, &folder, title, text);
    }
    Some(folder)
}

/// Saves a page.
fn edit(php: &Path, wiki: &Folder, title: &str, text: &str) {
    let mut edit = Command::new(php);
    edit.current_dir(wiki.join("public")).args(["maintenance/edit.php", title]);
    let mut child = edit.stdin(Stdio::piped()).stdout(Stdio::null()).spawn().expect("PHP starts");
    let mut stdin = child.stdin.take().expect("the stream is piped");
    stdin.write_all(text.as_bytes()).expect("edit.php reads the text");
    drop(stdin);
    assert!(child.wait().expect("the child can be waited for").success(), "edit.php does not save {title}");
}

/// Requests `target` with the host name of the wiki, which redirects requests for other names.
fn get(server: &Server, target: &str) -> Response {
    server.get_with(target, &["Host: wiki.test"])
}

#[test]
fn mediawiki_shows_a_page_with_a_slash_in_its_title_at_all_its_urls() {
    needs!(long());
    let Some(fpm) = Fpm::start_with_extensions("") else { return };
    let pages = [("A/B", "The text of a subpage."), ("Ünïcode/Ä", "The text with diaereses.")];
    let Some(wiki) = install(&pages) else { return };
    let server = fpm.serve(&wiki.join("public"), "/*", "");
    let mut failures = Vec::new();
    for (title, (_, text)) in
        [("A/B", pages[0]), ("%C3%9Cn%C3%AFcode/%C3%84", pages[1]), ("Ünïcode/Ä", pages[1])]
    {
        let encoded_slash = title.replace('/', "%2F");
        for target in [
            format!("/wiki/{title}"),
            format!("/wiki/{encoded_slash}"),
            format!("/index.php/{title}"),
            format!("/index.php/{encoded_slash}"),
            format!("/index.php?title={title}"),
            format!("/index.php?title={encoded_slash}"),
        ] {
            let response = get(&server, &target);
            if response.status != 200 || !response.text().contains(text) {
                let lines = [response.head.lines().next(), response.field("location")];
                failures.push(format!("{target}: {}", lines.map(Option::unwrap_or_default).join(" ")));
            }
        }
    }
    assert!(failures.is_empty(), "these do not show the page:\n{}", failures.join("\n"));
    assert_eq!(get(&server, "/wiki/A/C").status, 404, "a page that no one has written");
}

/// Settings for a cache in front of the wiki, at `$1`.
const CACHED: &str = r"$wgUseCdn = true; $wgCdnServers = [ '$1' ];";

#[test]
fn mediawiki_purges_a_page_that_is_cached_for_anonymous_readers() {
    needs!(long());
    let Some(fpm) = Fpm::start_with_extensions("") else { return };
    let (Some(php), Some(wiki)) = (program("php"), install(&[("Page", "The first text.")])) else { return };
    let public = wiki.join("public");
    // Not `loopback`, because the site has no `hosts`.
    let cache =
        "[site.route.cache]\nbypass_cookies = [\"wikiUserID\", \"wiki_session\"]\npurge_from = \"127.0.0.1\"";
    let server = fpm.serve_with(&public, "[cache]\npath = \"cache\"\n", cache);
    let cdn = CACHED.replace("$1", &server.address().to_string());
    public.append("LocalSettings.php", &format!("\n{cdn}\n"));
    let is_hit =
        |response: &Response| response.field("cache-status").is_some_and(|status| status.contains("hit"));
    let first = eventually("the page is cached", || Some(get(&server, "/wiki/Page")).filter(is_hit));
    assert!(first.text().contains("The first text."));
    edit(&php, &wiki, "Page", "The second text.");
    wait_until("the page was purged", || get(&server, "/wiki/Page").text().contains("The second text."));
}
