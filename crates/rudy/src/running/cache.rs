//! `rudy cache`: the cache of a running server, and checks of its folder.

use std::fmt::Write as _;
use std::io::{self, Write};
use std::path::PathBuf;
use std::time::Duration;

use rudy_admin::{CacheObject, CacheStats, PurgeRequest, PurgedBy, Request, Response, RunningServer};
use rudy_server::run::{Exit, cache_store};
use rudy_store::Options as StoreOptions;
use rudy_units::{Size, Visible, count, duration, visible, visible_json};
use serde_json::json;

use super::{json_line, print_response};

/// The options of `rudy cache`.
#[derive(Debug, Clone)]
pub(crate) struct Options {
    /// The server.
    pub(crate) server: RunningServer,
    /// Prints JSON.
    pub(crate) json: bool,
    /// What to do.
    pub(crate) action: Action,
}

/// A command of `rudy cache`.
#[derive(Debug, Clone)]
pub(crate) enum Action {
    /// Removes stored responses, or makes them stale.
    Purge {
        /// What is purged.
        by: Vec<PurgedBy>,
        /// Whether they become stale only.
        soft: bool,
        /// Whether the command ends when their files are gone.
        wait: bool,
    },
    /// Prints how much is stored.
    Stats,
    /// Prints the stored responses.
    List {
        /// Only those whose URL begins so.
        prefix: Option<String>,
        /// The maximum number.
        limit: usize,
    },
    /// Prints what is stored for a URL.
    Get {
        /// The URL.
        url: String,
    },
    /// Checks the folder of a configuration, and removes what is damaged.
    Verify {
        /// The configuration file.
        config: PathBuf,
    },
}

/// Runs the command.
#[must_use]
pub(crate) fn run(options: &Options) -> Exit {
    let request = match &options.action {
        Action::Verify { config } => return verify(config, options.json),
        Action::Purge { by, soft, wait } => {
            Request::CachePurge(PurgeRequest { by: by.clone(), soft: *soft, wait: *wait })
        }
        Action::Stats => Request::CacheStats,
        Action::List { prefix, limit } => Request::CacheList { prefix: prefix.clone(), limit: *limit },
        Action::Get { url } => Request::CacheGet { url: url.clone() },
    };
    print_response(&options.server, &request, |response| match response {
        Response::CachePurged if options.json => Ok(json_line(&json!({ "purged": true }))),
        Response::CachePurged => Ok("purged\n".to_owned()),
        Response::CacheSwept(objects) if options.json => {
            Ok(json_line(&json!({ "purged": true, "objects": objects })))
        }
        Response::CacheSwept(objects) => Ok(format!("purged: {} responses\n", count(objects))),
        Response::CacheStats(all) if options.json => Ok(json_line(&json!({ "caches": all }))),
        Response::CacheStats(all) => Ok(all.iter().map(stats).collect()),
        Response::CacheObjects(all) if options.json => Ok(json_line(&json!({ "objects": all }))),
        Response::CacheObjects(all) => Ok(all.iter().map(object).collect()),
        other => Err(other),
    })
}

fn stats(stats: &CacheStats) -> String {
    let size = |bytes| <Size>::from(bytes).to_string();
    let mut lines = vec![
        visible(&stats.folder),
        format!("  responses  {} of at most {}", count(stats.objects), count(stats.objects_max)),
        format!("  disk       {} of at most {}", size(stats.bytes), size(stats.bytes_max)),
        format!("  memory     {} in {} responses", size(stats.memory_bytes), count(stats.memory_objects)),
        format!("  compressed {} of copies in memory", size(stats.compressed_bytes)),
        format!("  evicted    {}", count(stats.evicted)),
        format!("  damaged    {}", count(stats.damaged)),
        format!("  not read because of errors  {}", count(stats.read_errors)),
        format!("  not written because of errors  {}", count(stats.write_errors)),
    ];
    if stats.purges_pending > 0 {
        lines.push(format!("  purges that are being applied  {}", count(stats.purges_pending)));
    }
    if stats.tags_unswept > 0 {
        lines.push(format!(
            "  purged tags whose files are removed within an hour  {}",
            count(stats.tags_unswept)
        ));
    }
    if !stats.is_writer {
        lines.push("  it is only read: another process has its lock, or the error log says why this one cannot take it".to_owned());
    }
    if stats.is_suspended {
        lines.push("  its disk fails: requests pass it by, until a probe once a minute works".to_owned());
    }
    if !stats.is_indexed {
        lines.push("  the folder is still being read: the numbers grow".to_owned());
    }
    lines.join("\n") + "\n"
}

/// Formats an object: a line, and its fields if they are known. The words of the origin are shown without control characters.
fn object(object: &CacheObject) -> String {
    let seconds = |seconds: u32| duration(Duration::from_secs(seconds.into()));
    let fresh = if object.fresh_s == 0 {
        "stale".to_owned()
    } else {
        format!("fresh for {}", seconds(object.fresh_s))
    };
    let part = if object.is_whole { "" } else { ", incomplete" };
    let vary = if object.vary.is_empty() {
        String::new()
    } else {
        format!(", by {}", visible(&object.vary.join(", ")))
    };
    let mut text = format!(
        "{} {}  {}, age {}, {fresh}{part}{vary}\n",
        object.status,
        visible(&object.url),
        <Size>::from(object.body_bytes),
        seconds(object.age_s)
    );
    for (name, value) in &object.fields {
        // Writing to a string does not fail.
        let _ = writeln!(text, "    {}: {}", visible(name), visible(value));
    }
    text
}

/// Checks the folder of a configuration.
fn verify(path: &std::path::Path, is_json: bool) -> Exit {
    let (mut stdout, mut stderr) = (Visible(io::stdout().lock()), Visible(io::stderr().lock()));
    let options = match cache_store(path) {
        Ok(Some(options)) => options,
        Ok(None) => {
            let _ = writeln!(
                stderr,
                "error: the configuration has no folder for the cache: set `path` in [cache]"
            );
            return Exit::CannotRun;
        }
        Err(why) => {
            let _ = writeln!(stderr, "{why}");
            return Exit::BadInput;
        }
    };
    match check(&options, is_json, &mut stdout) {
        Ok(0) => Exit::Done,
        Ok(_) => Exit::NotMet,
        Err(why) => {
            let _ = writeln!(stderr, "error: cannot check {}: {why}", options.folder.display());
            Exit::CannotRun
        }
    }
}

/// Prints what is damaged. Returns the number of damaged files.
fn check(options: &StoreOptions, is_json: bool, out: &mut impl Write) -> Result<u64, String> {
    let mut dropped = Vec::new();
    let verified = rudy_store::verify(options, |found| {
        let path = visible(&found.path.display().to_string());
        dropped.push((path, found.reason.to_string(), found.removed));
    });
    let verified = verified.map_err(|error| error.to_string())?;
    let _ = if is_json {
        let files = dropped.iter().map(|(path, reason, removed)| {
            serde_json::json!({ "path": path, "reason": reason, "removed": removed })
        });
        writeln!(
            out,
            "{}",
            visible_json(&serde_json::json!({
                "objects": verified.objects, "bytes": verified.bytes, "dropped": files.collect::<Vec<_>>()
            }))
        )
    } else {
        for (path, reason, removed) in &dropped {
            let done = if *removed { "removed" } else { "not removed: a server uses the folder" };
            let _ = writeln!(out, "{path}: {reason} ({done})");
        }
        let bytes = <Size>::from(verified.bytes);
        writeln!(
            out,
            "{} responses, {bytes}: {} damaged files",
            count(verified.objects),
            count(verified.dropped)
        )
    };
    Ok(verified.dropped)
}
