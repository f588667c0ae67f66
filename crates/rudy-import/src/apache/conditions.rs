//! The conditions of `mod_rewrite`.

use crate::guard::Guard;
use crate::regexes::{path_pattern, wildcards};
use crate::syntax::Directive;
use crate::toml::Value;

/// What the conditions of a rule mean.
#[derive(Debug, Default)]
pub(super) struct Conditions {
    pub(super) guard: Guard,
    /// `!-f`: only paths without a file.
    pub(super) missing: bool,
    /// `-f`: only paths with a file.
    pub(super) existing: bool,
    /// The expression for the host, if the target can have its groups.
    pub(super) host: Option<String>,
    /// A condition without a translation.
    pub(super) unknown: Option<String>,
    /// A condition that is about something Rudy does itself.
    pub(super) needless: bool,
}

/// The conditions in front of a rule.
pub(super) fn conditions(conditions: &[&Directive]) -> Conditions {
    let mut all = Conditions::default();
    let is_or = |condition: &&&Directive| {
        condition
            .arg(2)
            .trim_matches(['[', ']'])
            .split(',')
            .any(|flag| ["OR", "ornext"].contains(&flag.trim()))
    };
    let alternatives = conditions.iter().filter(is_or).count() > 0;
    for condition in conditions {
        let (test, pattern) = (condition.arg(0), condition.arg(1));
        let ignore_case = condition.arg(2).to_ascii_uppercase().contains("NC");
        match one(test, pattern, ignore_case, &mut all) {
            Ok(Some(guard)) if !alternatives => all.guard = all.guard.and(&guard),
            Ok(Some(_)) => all.unknown = Some("Rudy has no alternatives of these conditions".to_owned()),
            Ok(None) => {}
            Err(why) => all.unknown = Some(why),
        }
    }
    all
}

fn one(test: &str, pattern: &str, ignore_case: bool, all: &mut Conditions) -> Result<Option<Guard>, String> {
    let (is_not, plain) = pattern.strip_prefix('!').map_or((false, pattern), |rest| (true, rest));
    let signed = |guard: Guard| -> Result<Option<Guard>, String> {
        let guard = if is_not { guard.negated().ok_or("it is negated twice")? } else { guard };
        Ok(Some(guard))
    };
    let name = test.trim_start_matches("%{").trim_end_matches('}');
    let unknown = || format!("Rudy has no condition for {test} {pattern}");
    match (name, plain) {
        (
            "REQUEST_FILENAME" | "DOCUMENT_ROOT}%{REQUEST_URI" | "DOCUMENT_ROOT}/%{REQUEST_URI",
            "-f" | "-d" | "-s" | "-l" | "-F",
        ) => {
            *(if is_not { &mut all.missing } else { &mut all.existing }) = true;
            Ok(None)
        }
        ("HTTPS", _) => {
            let is_on = plain.trim_matches(['^', '$', '=']).eq_ignore_ascii_case("on") != is_not;
            Ok(Some(Guard::condition("scheme", if is_on { "https" } else { "http" })))
        }
        ("SERVER_PORT", _) => {
            let is_http = plain.trim_matches(['^', '$', '=']) == "80";
            let is_https = plain.trim_matches(['^', '$', '=']) == "443";
            (is_http || is_https).then_some(()).ok_or_else(unknown)?;
            Ok(Some(Guard::condition("scheme", if is_https == is_not { "http" } else { "https" })))
        }
        ("REQUEST_SCHEME" | "HTTP:X-Forwarded-Proto", _) => {
            let scheme = plain.trim_matches(['^', '$', '=']);
            ["http", "https"].contains(&scheme).then_some(()).ok_or_else(unknown)?;
            signed(Guard::condition("scheme", scheme)).map(|guard| {
                guard.map(|guard| {
                    if is_not {
                        Guard::condition("scheme", if scheme == "https" { "http" } else { "https" })
                    } else {
                        guard
                    }
                })
            })
        }
        ("HTTP_HOST" | "SERVER_NAME", _) => {
            if !is_not {
                all.host = Some(plain.to_owned());
            }
            let texts = wildcards(plain.trim_start_matches('=')).ok_or_else(unknown);
            match texts {
                Ok(texts) => signed(Guard::header("Host", Value::texts(texts))),
                // A target with the groups of the host is written for each host.
                Err(_) if !is_not && plain.contains('(') => Ok(None),
                Err(why) => Err(why),
            }
        }
        ("REQUEST_URI", _) => signed(Guard::paths([path_pattern(plain, ignore_case)?])),
        ("REQUEST_METHOD", _) => {
            let methods = wildcards(plain).filter(|all| all.iter().all(|method| !method.contains('*')));
            signed(Guard::condition("methods", Value::texts(methods.ok_or_else(unknown)?)))
        }
        ("HTTP_USER_AGENT" | "HTTP_REFERER" | "HTTP_COOKIE" | "HTTP_ACCEPT", _) if !ignore_case => {
            let field = ["User-Agent", "Referer", "Cookie", "Accept"]
                .into_iter()
                .find(|field| name.ends_with(&field.to_ascii_uppercase().replace('-', "_")));
            let texts = wildcards(plain).ok_or_else(unknown)?;
            signed(Guard::header(field.ok_or_else(unknown)?, Value::texts(texts)))
        }
        ("REMOTE_ADDR", _) => {
            let address = plain.trim_matches(['^', '$']).replace("\\.", ".");
            address.parse::<std::net::IpAddr>().map_err(|_| unknown())?;
            signed(Guard::condition("clients", address))
        }
        ("HTTP:Authorization" | "ENV:REDIRECT_STATUS", _) => {
            all.needless = true;
            Ok(None)
        }
        _ => Err(unknown()),
    }
}
