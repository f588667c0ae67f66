//! The admin socket of a running server, as both sides see it: a Unix socket (0600) in a folder that only the server's user can write to.
//! A request is a JSON object on a line, and so is its response.
//!
//! 1. [`protocol`] has the requests and responses; [`report`] is what `rudy status` shows, and [`limits`] and [`upstreams`]
//!    what the commands of these names show.
//! 2. [`process`] finds the running server of a user, [`path`] its socket.
//! 3. [`client`] sends a request.
//! 4. [`outcome`] is where the server reports the result of a reload.

mod client;
mod limits;
mod outcome;
mod path;
pub mod process;
mod protocol;
mod report;
mod upstreams;

pub use self::client::{RunningServer, ask};
pub use self::limits::{LimitStatus, TopKeyStatus};
pub use self::outcome::{OUTCOME_BYTES_MAX, outcome_address, outcome_file_name};
pub use self::path::{default_folder, safe_folders, socket_file_name};
pub use self::protocol::{
    CacheObject, CacheStats, CertificateStatus, LastError, PurgeRequest, PurgedBy, REQUEST_BYTES_MAX,
    Request, Response,
};
pub use self::report::{
    ActiveRequest, Connections, Filter, Holder, Outcomes, Phase, Rates, StatusReport, TopEntry, TopLists,
};
pub use self::upstreams::{UpstreamState, UpstreamStatus};
