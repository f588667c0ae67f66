//! Rejected nonces.

use instant_acme::Error;

/// The number of tries of a request whose nonce is rejected. `instant-acme` repeats each of them twice.
pub(crate) const TRIES: usize = 5;

/// The number of tries of a poll, which is a request every few seconds: with [`TRIES`], an authority that rejects half of the nonces
/// ends one in fifty polls of 15 s.
pub(crate) const POLL_TRIES: usize = 30;

/// Repeats a request whose nonce is rejected, as authorities with several machines do (RFC 8555 §6.5).
///
/// A macro, because the future of a function with an async closure is not known to be `Send`.
macro_rules! patiently {
    ($request:expr) => {
        crate::nonce::patiently!($request, crate::nonce::TRIES)
    };
    ($request:expr, $tries:expr) => {{
        let mut tries = 1;
        loop {
            match $request.await {
                Err(error) if tries < $tries && crate::nonce::is_rejected(&error) => tries += 1,
                result => break result,
            }
        }
    }};
}

pub(crate) use patiently;

/// Whether the authority rejected the nonce of a request.
pub(crate) fn is_rejected(error: &Error) -> bool {
    let Error::Api(problem) = error else { return false };
    problem.r#type.as_deref().is_some_and(|kind| kind.ends_with(":badNonce"))
}
