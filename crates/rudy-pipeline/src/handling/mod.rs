//! What handles a request: [`Context`] finds its route, a [`Passage`] takes it through each [`Step`] of the route to the [`Handler`], and
//! the response back.

mod context;
mod handler;
mod passage;
mod step;

pub use self::context::{Context, Routes};
pub use self::handler::{BuildContext, Call, Handler, HandlerConfig, NoHandler, Start};
pub use self::passage::{Decided, Explained, FilledFields, Flow, Kept, Next, OwnedCall, Passage, explain};
pub use self::step::{Around, ResponseStep, Step, Target};
