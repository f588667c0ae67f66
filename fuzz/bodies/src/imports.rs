//! Configurations of Caddy, Apache and `HAProxy`: any text is translated or rejected, and a protection that is missing is in the list.

use rudy_import::{File, Source, import};

pub(crate) fn caddy(text: &[u8]) {
    run(Source::Caddy, "Caddyfile", text);
}

pub(crate) fn apache(text: &[u8]) {
    run(Source::Apache, "site.conf", text);
    run(Source::Apache, ".htaccess", text);
}

pub(crate) fn haproxy(text: &[u8]) {
    run(Source::Haproxy, "haproxy.cfg", text);
}

fn run(source: Source, name: &str, text: &[u8]) {
    let Ok(text) = std::str::from_utf8(text) else { return };
    let main = File { name: name.to_owned(), text: text.to_owned() };
    let included = File { name: "included".to_owned(), text: text.chars().rev().collect() };
    let mut read = |pattern: &str| if pattern.len() > 8 { vec![included.clone()] } else { Vec::new() };
    match import(source, &main, &mut read) {
        Ok(import) => {
            let open = import.report.not_translated.len();
            assert!(!import.report.unprotected || open > 0, "a protection is missing in the list");
        }
        Err(error) => assert!(error.place.line > 0 && !error.problem.is_empty()),
    }
}
