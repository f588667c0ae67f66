//! `DokuWiki` from Debian: a user logs in and edits a page, which all visitors can read.

use rudy_tests::prelude::*;

use super::{Fpm, send};

/// Copies the files that `cargo xtask setup` has unpacked into the folder `$2`, and configures them: Debian
/// distributes them over the system.
const SET_UP: &str = r#"set -e
# Some links point to files that were not unpacked.
cp -rL "$1/usr/share/dokuwiki" "$2/public" 2>/dev/null || true
cp -r "$1/usr/share/php" "$1/usr/share/php-geshi" "$2/"
rm -rf "$2/public/lib/plugins" "$2/public/lib/tpl"
cp -r "$1"/var/lib/dokuwiki/lib/* "$2/public/lib/"
cp -r "$1/etc/dokuwiki" "$2/conf"
cp -r "$1/var/lib/dokuwiki/data" "$2/data"
cd "$2"
mkdir -p data/pages data/attic data/media data/media_attic data/media_meta data/meta data/cache data/index data/locks data/tmp data/log
sed -i "s#/etc/dokuwiki#$2/conf#g" public/inc/preload.php
grep -rlI /usr/share/php public | xargs sed -i "s#/usr/share/php#$2/php#g"
rm -f conf/acl.auth.php conf/users.auth.php
printf '* @ALL 1\n* @user 8\n' > conf/acl.auth.php
php -n -r 'echo "ada:", password_hash("secret", PASSWORD_BCRYPT), ":Ada:ada@example.org:user\n";' > conf/users.auth.php
printf "<?php\n\$conf['savedir'] = '$2/data';\n\$conf['useacl'] = 1;\n" > conf/local.php"#;

fn set_up() -> Option<Folder> {
    let unpacked = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/dokuwiki");
    if !unpacked.join("usr/share/dokuwiki/doku.php").is_file() {
        skip("DokuWiki is missing; `cargo xtask setup` unpacks it");
        return None;
    }
    let folder = Folder::new();
    let mut shell = Command::new("sh");
    Output::of(shell.args(["-c", SET_UP, "sh"]).arg(unpacked).arg(&folder)).succeeded();
    Some(folder)
}

/// A minimal browser with cookies and forms.
struct Browser<'s> {
    server: &'s Server,
    cookies: Vec<(String, String)>,
}

impl Browser<'_> {
    fn get(&mut self, target: &str) -> Response {
        self.send("GET", target, "", "")
    }

    /// Sends a form with the token of its page.
    fn post(&mut self, target: &str, page: &Response, form: &str) -> Response {
        let token =
            page.text().split("name=\"sectok\" value=\"").nth(1).and_then(|rest| rest.split('"').next());
        let form = format!("{form}&sectok={}", token.expect("the page has a form"));
        self.send("POST", target, "Content-Type: application/x-www-form-urlencoded\r\n", &form)
    }

    fn send(&mut self, method: &str, target: &str, fields: &str, body: &str) -> Response {
        let cookies: Vec<_> = self.cookies.iter().map(|(name, value)| format!("{name}={value}")).collect();
        let fields = format!("Cookie: {}\r\n{fields}", cookies.join("; "));
        let response = send(self.server, method, target, &fields, body);
        for cookie in response.fields("set-cookie") {
            let (name, value) =
                cookie.split(';').next().and_then(|pair| pair.split_once('=')).expect("a cookie");
            self.cookies.retain(|(other, _)| other != name);
            if value != "deleted" {
                self.cookies.push((name.to_owned(), value.to_owned()));
            }
        }
        response
    }
}

#[test]
fn a_user_logs_in_and_edits_a_page_that_all_can_read() {
    needs!(long());
    let Some(fpm) = Fpm::start("") else { return };
    let Some(wiki) = set_up() else { return };
    let server = fpm.serve(&wiki.path().join("public"), "/*", "");
    assert_eq!(server.get("/doku.php?id=start").status, 200);
    assert_eq!(server.get("/lib/tpl/dokuwiki/images/logo.png").field("content-type"), Some("image/png"));
    let mut ada = Browser { server: &server, cookies: Vec::new() };
    let page = ada.get("/doku.php?id=start&do=login");
    let response = ada.post("/doku.php?id=start", &page, "u=ada&p=secret&do=login&id=start");
    assert_eq!(response.status, 302, "{}", response.text());
    assert!(ada.get("/doku.php?id=start").text().contains("Logged in as"));
    let page = ada.get("/doku.php?id=wiki:test&do=edit");
    let form = "id=wiki:test&rev=0&prefix=.&suffix=&wikitext=Hello+**there**&summary=first&do[save]=1&target=section";
    assert_eq!(ada.post("/doku.php", &page, form).status, 302);
    assert!(server.get("/doku.php?id=wiki:test").text().contains("Hello <strong>there</strong>"));
}
