//! The path of a request: [`context`] finds its route, [`passage`] takes it through the steps of the route to the handler, and the response
//! back.
//!
//! Handlers and steps implement the traits here. They know the pipeline; it knows none of them.

mod allowed_clients;
pub mod client_address;
pub mod compression;
mod context;
pub mod digits;
pub mod exchange;
pub mod field_changes;
mod handler;
mod hold;
mod https_redirect;
pub mod internal_redirect;
pub mod media_types;
pub mod methods;
pub mod network;
pub mod own_fields;
pub mod pages;
mod passage;
mod pieces;
pub mod registry;
pub mod request_state;
mod resources;
pub mod routing;
mod step;
pub mod wildcard;

pub use self::allowed_clients::{AllowedClient, AllowedClients};
pub use self::context::{Context, Routes};
pub use self::handler::{BuildContext, Call, Handler, HandlerConfig, NoHandler, Start};
pub use self::https_redirect::{CHALLENGE_PATH, HTTPS_PORT, is_challenge_path};
pub use self::passage::{Decided, Explained, FilledFields, Flow, Kept, Next, OwnedCall, Passage, explain};
pub use self::pieces::Pieces;
pub use self::resources::Resources;
pub use self::step::{Around, ResponseStep, Step, Target};
