//! Comments, their moderation, and forms of other sites.

use rudy_tests::prelude::*;

use super::{Site, URL};

const POST: &str = "/posts/one-process";
const FORM: &str = "name=Ann+%3Ci%3E&text=First+line%0D%0A%3Cscript%3Ealert(1)%3C/script%3E";

impl Site {
    /// The cookie that the page of the author sets.
    fn cookie(&self) -> String {
        let admin = self.as_author("/admin");
        let cookie = admin.field("set-cookie").expect("the page sets a cookie").to_owned();
        assert!(cookie.ends_with("; Path=/admin; HttpOnly; SameSite=Strict"), "{cookie}");
        format!("Cookie: {}", cookie.split(';').next().unwrap_or_default())
    }

    /// Decides on the comment with this number.
    fn decide(&self, number: usize, decision: &str) -> u16 {
        let fields = [Weblog::AUTHOR, &self.cookie()];
        self.post(&format!("/admin/comments/{number}/{decision}"), &fields, "").status
    }
}

#[test]
fn a_comment_appears_after_approval_as_plain_text_and_stays_after_a_restart() {
    let mut site = Site::start(None);
    let sent = site.post(&format!("{POST}/comments"), &[], FORM);
    let seen = (sent.status, sent.field("location"));
    assert_eq!(seen, (303, Some("/posts/one-process/thanks")), "{}", sent.text());
    assert!(site.get("/posts/one-process/thanks").contains("waits for the author"));
    let text = "First line\n&lt;script&gt;alert(1)&lt;&#x2f;script&gt;";
    assert!(site.as_author("/admin").text().contains(text), "{}", site.as_author("/admin").text());
    assert!(!site.get(POST).contains("First line"));
    assert_eq!(site.decide(1, "approve"), 303);
    assert!(site.get(POST).contains(text) && site.get(POST).contains("<b>Ann &lt;i&gt;</b>"));
    assert!(!site.get("/posts/validators").contains("First line"), "it is on its post only");
    site.server = site.weblog.serve("127.0.0.1:0");
    assert!(site.get(POST).contains(text), "the comment is on the disk");
    assert_eq!(site.decide(1, "delete"), 303);
    assert!(!site.get(POST).contains("First line"));
    assert_eq!(site.decide(1, "delete"), 404);
}

#[test]
fn forms_of_other_sites_change_nothing() {
    let site = Site::start(None);
    let target = format!("POST {POST}/comments");
    let (own, form) = (format!("Origin: {URL}"), "Content-Type: application/x-www-form-urlencoded");
    for fields in [
        &[][..],
        &["Origin: null"],
        &["Origin: https://evil.example"],
        &["Origin: http://notes.example"],
        &["Origin: https://notes.example.evil.example"],
        &["Origin: https://evil.example", "Host: notes.example"],
        &["Origin: https://evil.example", "Sec-Fetch-Site: same-origin"],
        &["origin: HTTPS://EVIL.EXAMPLE"],
        &["Origin_: https://notes.example"],
        &["Sec-Fetch-Site: same-origin"],
        &["Referer: https://notes.example/"],
        &[&own, "Origin: https://evil.example"],
        &[&own, "Sec-Fetch-Site: cross-site"],
        &[&own, "SEC-FETCH-SITE: same-site"],
        &[&own, "Sec-Fetch-Site: none"],
        &[&own, "Sec-Fetch-Site: same-origin", "Sec-Fetch-Site: cross-site"],
    ] {
        let response = site.send(&target, &[&[form], fields].concat(), FORM);
        assert!(matches!(response.status, 400 | 403), "{fields:?}: {}", response.head);
    }
    assert!(!site.as_author("/admin").text().contains("First line"));
}

#[test]
fn only_the_author_decides() {
    let site = Site::start(None);
    assert_eq!(site.post(&format!("{POST}/comments"), &[], FORM).status, 303);
    let cookie = site.cookie();
    let approve = "/admin/comments/1/approve";
    assert_eq!(site.post(approve, &[&cookie], "").status, 401, "without a password");
    for other in ["Cookie: author=", "Cookie: author=00", "Cookie: x=y"] {
        assert_eq!(site.post(approve, &[Weblog::AUTHOR, other], "").status, 403, "{other}");
    }
    let fields = [Weblog::AUTHOR, &cookie, "Origin: https://evil.example"];
    assert_eq!(site.send(&format!("POST {approve}"), &fields, "").status, 403, "a form of another site");
    assert_eq!(site.as_author(approve).status, 404, "a link changes nothing");
    assert!(!site.get(POST).contains("First line"));
    for target in ["2/approve", "x/delete", "99999999999999999999/delete"] {
        let target = format!("/admin/comments/{target}");
        assert_eq!(site.post(&target, &[Weblog::AUTHOR, &cookie], "").status, 404, "{target}");
    }
}

#[test]
fn a_form_that_is_no_comment_is_rejected_with_its_reason() {
    let site = Site::start(None);
    let send = |post: &str, form: &str| site.post(&format!("/posts/{post}/comments"), &[], form);
    for (form, expected) in [
        ("name=Ann", "no field `text`"),
        ("name=Ann&text=+", "has 0 characters"),
        (&*format!("name=Ann&text={}", "a".repeat(4001)), "has 4001 characters"),
        ("name=Ann&text=%00", "which is no text"),
    ] {
        let response = send("one-process", form);
        assert_eq!(response.status, 422);
        assert_contains!(response.text(), expected);
    }
    assert_eq!(send("one-process", &format!("text={}", "a".repeat(70_000))).status, 413);
    assert_eq!(send("none", FORM).status, 404);
    assert_eq!(send("draft-on-caches", FORM).status, 404);
    let origin = format!("Origin: {URL}");
    let multipart = [&origin, "Content-Type: multipart/form-data; boundary=x"];
    assert_eq!(site.send(&format!("POST {POST}/comments"), &multipart, FORM).status, 415);
}
