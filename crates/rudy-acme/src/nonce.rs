//! Rejected nonces.

use instant_acme::Error;

/// The number of tries of a request whose nonce is rejected. `instant-acme` repeats each of them twice.
pub(crate) const TRIES: usize = 5;

/// Repeats a request whose nonce is rejected, as authorities with several machines do (RFC 8555 §6.5).
///
/// A macro, because the future of a function with an async closure is not known to be `Send`.
macro_rules! patiently {
    ($request:expr) => {{
        let mut tries = 1;
        loop {
            match $request.await {
                Err(error) if tries < crate::nonce::TRIES && crate::nonce::is_rejected(&error) => tries += 1,
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
