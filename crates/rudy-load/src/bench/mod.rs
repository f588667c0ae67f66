//! The load generator: many requests, in a closed loop or at a rate.

mod command;
mod exchange;
mod feed;
mod fleet;
mod knee;
mod kubernetes;
mod merge;
mod options;
mod output;
mod plan;
mod prepare;
mod recorder;
mod report;
mod requests;
mod run;
mod sources;
mod split;
mod urls;
mod view;
mod worker;

pub use command::bench;
pub use kubernetes::{JobOptions, print_job};
pub use merge::{MergeOptions, merge};
pub use options::{
    ArrivalsName, ConnectionOptions, ExpectedOptions, Options, OutputOptions, PaceOptions, RequestOptions,
    SloSearchOptions,
};
pub use plan::{Expected, Pace, Plan, Repeat, Until};
pub use recorder::Recorder;
pub(crate) use requests::Requests;
pub use run::{Interval, Outcome, RunError, ThreadTime, Watch, run};
pub use sources::Sources;
pub use split::{Split, StartAt};
