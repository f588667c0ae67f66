//! The load generator: many requests, in a closed loop or at a rate.

mod clock;
mod command;
mod connections;
mod exchange;
mod handshakes;
mod json;
mod merge;
mod options;
mod output;
mod plan;
mod prepare;
mod recorder;
mod report;
mod request_schedule;
mod requests;
mod run;
mod search;
mod slots;
mod sources;
mod split;
mod streams;
mod urls;
mod view;
mod worker;

pub use command::bench;
pub use handshakes::Handshakes;
pub use merge::{MergeOptions, merge};
pub use options::{
    ArrivalsName, ConnectionOptions, ExpectedOptions, Options, OutputOptions, PaceOptions, RequestOptions,
    SloSearchOptions,
};
pub use plan::{AbortCondition, BodyProperty, Expected, Pace, Plan, Until};
pub use recorder::{Failed, Recorder, StatusClass};
pub use report::{Config, Run};
pub(crate) use requests::Requests;
pub use run::{Interval, Outcome, RunError, ThreadTime, Watch, run};
pub use sources::Sources;
pub use split::{ShareConfig, Split, StartAt};
pub use view::LOAD_STARTS;
