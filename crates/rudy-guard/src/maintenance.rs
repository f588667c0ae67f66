//! The step that rejects requests during maintenance: while a file exists.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use http::{HeaderValue, StatusCode, header};
use rudy_config::{FilePath, Table};
use rudy_pipeline::{AllowedClients, Call, Context, Flow, Passage, Step, pages};
use rudy_service::{Request, Response};
use rudy_system::watched_files::{Watched, WatchedFiles};
use rudy_units::Time;

/// Maintenance: the file that switches it on, or a table.
#[derive(Debug, Clone, PartialEq, Eq, Table)]
#[setting(short(file), what = "a file (\"maintenance\") or a table")]
pub struct MaintenanceTable {
    /// File whose existence switches maintenance on, relative to the configuration file. Rudy looks for it every two seconds.
    #[setting(example = "maintenance")]
    pub file: FilePath,
    /// Clients whose requests are handled as usual: addresses, networks, or `loopback`. The default is none.
    #[setting(example = ["loopback", "10.0.0.0/8"])]
    pub allow: Option<AllowedClients>,
    /// Time after which clients may try again (`Retry-After`).
    #[setting(example = "1h", default = Time(Duration::from_mins(5)), reason = "Long enough that search engines do not try again at once, and short enough that users do.")]
    pub retry_after: Time,
}

/// Responds with 503 while the file exists.
#[derive(Debug)]
pub struct Maintenance {
    switch: Arc<Switch>,
    allow: Option<AllowedClients>,
    retry_after: HeaderValue,
}

/// Whether the file exists.
#[derive(Debug)]
struct Switch {
    file: PathBuf,
    exists: AtomicBool,
}

impl Maintenance {
    /// Looks for the file, and again whenever `files` are updated.
    pub fn new(table: &MaintenanceTable, files: &WatchedFiles) -> Self {
        let exists = AtomicBool::new(is_there(&table.file));
        let switch = Arc::new(Switch { file: table.file.0.clone(), exists });
        files.add(&switch);
        let retry_after = HeaderValue::from(table.retry_after.0.as_secs());
        Self { switch, allow: table.allow.clone(), retry_after }
    }

    fn reject(&self, request: &Request<'_>, context: Context<'_>) -> Option<Response> {
        // No other memory depends on the switch.
        if !self.switch.exists.load(Ordering::Relaxed)
            || self.allow.as_ref().is_some_and(|allow| allow.allows(request, context))
        {
            return None;
        }
        let explanation = "This site is under maintenance. Try again later.";
        let mut response = pages::error(StatusCode::SERVICE_UNAVAILABLE, request.headers(), explanation);
        response.headers_mut().insert(header::RETRY_AFTER, self.retry_after.clone());
        Some(response)
    }
}

impl Step for Maintenance {
    fn request(&self, passage: &mut Passage<'_>, call: &Call<'_>) -> Flow {
        self.reject(&passage.request, call.context).map_or(Flow::Continue, Flow::from)
    }

    fn describe(&self) -> Vec<String> {
        let allowed = self.allow.as_ref().map_or_else(String::new, |allow| format!(", except for {allow}"));
        vec![format!("maintenance: 503 while {} exists{allowed}", self.switch.file.display())]
    }

    fn reason(&self, request: &Request<'_>, call: &Call<'_>) -> Option<String> {
        let file = self.switch.file.display();
        self.reject(request, call.context).map(|_| format!("maintenance, because {file} exists"))
    }
}

impl Watched for Switch {
    fn update(&self) -> Option<Result<String, String>> {
        let exists = is_there(&self.file);
        let before = self.exists.swap(exists, Ordering::Relaxed);
        let file = self.file.display();
        (before != exists).then(|| {
            Ok(if exists {
                format!("maintenance begins: {file} exists")
            } else {
                format!("maintenance ends: {file} does not exist")
            })
        })
    }
}

fn is_there(file: &Path) -> bool {
    // A link without a target is a file, too: a switch can be made with `ln -s`.
    file.symlink_metadata().is_ok()
}
