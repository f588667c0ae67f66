//! The path of a request: [`context`] finds its route, [`passage`] takes it through the steps of the route to the handler, and the response
//! back.
//!
//! Handlers and steps implement the traits here. They know the pipeline; it knows none of them.

mod allowed_clients;
mod context;
mod handler;
mod hold;
mod https_redirect;
mod passage;
mod pieces;
mod resources;
mod step;

pub use self::allowed_clients::{AllowedClient, AllowedClients};
pub(crate) use self::context::{Context, Routes};
pub(crate) use self::handler::{BuildContext, Call, Handler, HandlerConfig, NoHandler, Start};
pub(crate) use self::https_redirect::{CHALLENGE_PATH, HTTPS_PORT, is_challenge_path};
pub(crate) use self::passage::{
    Decided, Explained, FilledFields, Flow, Kept, Next, OwnedCall, Passage, explain,
};
pub(crate) use self::pieces::Pieces;
pub use self::resources::Resources;
pub(crate) use self::step::{Around, ResponseStep, Step, Target};
