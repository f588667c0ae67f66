//! `rudy limits`: the limits of a running server, and the keys over them.

use rudy_admin::{LimitStatus, Request, Response, RunningServer, TopKeyStatus};
use rudy_server::run::Exit;
use rudy_units::{bytes, count, visible};
use serde_json::json;

use super::{json_line, print_response};

/// The options of `rudy limits`.
#[derive(Debug, Clone)]
pub(crate) struct Options {
    /// The server.
    pub(crate) server: RunningServer,
    /// Prints JSON.
    pub(crate) json: bool,
}

/// Asks the server, and prints the counts of its limits.
#[must_use]
pub(crate) fn run(options: &Options) -> Exit {
    print_response(&options.server, &Request::Limits, |response| match response {
        Response::Limits(all) if options.json => Ok(json_line(&json!({ "limits": all }))),
        Response::Limits(all) => Ok(text(&all)),
        other => Err(other),
    })
}

/// Formats some lines for each limit. The server's words are shown without control characters.
fn text(all: &[LimitStatus]) -> String {
    if all.is_empty() {
        return "no site or route of this server has a limit by key\n".to_owned();
    }
    all.iter().map(of_limit).collect::<Vec<_>>().join("\n")
}

fn of_limit(limit: &LimitStatus) -> String {
    let mut counts = vec![format!("{} rejected", count(limit.rejected))];
    if limit.dry_run > 0 {
        counts.push(format!("{} passed in a dry run", count(limit.dry_run)));
    }
    if let Some(shared) = limit.shared.filter(|shared| *shared > 0) {
        counts.push(format!("{} passed by network, because the memory is full", count(shared)));
    }
    counts.extend(limit.memory_bytes.map(|memory| format!("{} of memory", bytes(memory as u64))));
    counts
        .extend(limit.active_keys.map(|keys| format!("{} active", rudy_units::counted(keys as u64, "key"))));
    let title = format!("{}: {} by {}", limit.name, limit.max, limit.by);
    let keys = limit.top.iter().map(of_key);
    let lines = [visible(&title), format!("  {}", counts.join(", "))].into_iter().chain(keys);
    lines.collect::<Vec<_>>().join("\n") + "\n"
}

fn of_key(top: &TopKeyStatus) -> String {
    format!("    {:<40} {:>12}  last {} s ago", visible(&top.key), count(top.count), count(top.last_s))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_shown_with_the_keys_over_them() {
        let key = TopKeyStatus { key: "2001:db8::/64".to_owned(), count: 1200, last_s: 3 };
        let rate = LimitStatus {
            name: "a.org/api/*\x1b".to_owned(),
            max: "10/s, 20 at once".to_owned(),
            by: "address".to_owned(),
            rejected: 1234,
            dry_run: 0,
            shared: Some(7),
            memory_bytes: Some(65_536),
            active_keys: None,
            top: vec![key],
        };
        let concurrency = LimitStatus {
            name: "downloads".to_owned(),
            max: "3 at once".to_owned(),
            dry_run: 5,
            rejected: 0,
            shared: None,
            memory_bytes: None,
            active_keys: Some(1),
            top: Vec::new(),
            ..rate.clone()
        };
        let expected = "a.org/api/*\\u{1b}: 10/s, 20 at once by address
  1,234 rejected, 7 passed by network, because the memory is full, 64.0 KiB of memory
    2001:db8::/64                                   1,200  last 3 s ago

downloads: 3 at once by address
  0 rejected, 5 passed in a dry run, 1 key active
";
        assert_eq!(text(&[rate, concurrency]), expected);
        assert_eq!(text(&[]), "no site or route of this server has a limit by key\n");
    }
}
