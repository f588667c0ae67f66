//! The lifecycle of a request: [`routing`] finds its route, and [`handling`] takes it through the steps of the route to the handler, and the
//! response back.
//!
//! Handlers and steps implement the traits here. They know the pipeline; it knows none of them.

#![cfg_attr(not(test), deny(clippy::disallowed_methods))]

mod allowed_clients;
pub mod client_address;
pub mod compression;
pub mod conditions;
pub mod digits;
pub mod exchange;
pub mod field_changes;
mod handling;
mod hold;
mod hosts;
mod https_redirect;
pub mod internal_redirect;
pub mod media_types;
pub mod methods;
pub mod network;
pub mod own_fields;
pub mod pacing;
pub mod pages;
pub mod parts;
mod patterns;
mod pieces;
pub mod ranges;
pub mod registry;
pub mod request_state;
mod resources;
pub mod routing;
pub mod vary;
pub mod wildcard;

pub use self::allowed_clients::AllowedClients;
pub use self::conditions::AllowedClient;
pub use self::handling::{
    Around, BuildContext, Call, Context, Decided, Explained, FilledFields, Flow, Handler, HandlerConfig,
    Kept, Next, NoHandler, OwnedCall, Passage, ResponseStep, Routes, Start, Step, Target, explain,
};
pub use self::https_redirect::{CHALLENGE_PATH, HTTPS_PORT, is_challenge_path};
pub use self::pieces::Pieces;
pub use self::resources::Resources;
