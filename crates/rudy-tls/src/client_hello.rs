//! The first message of a client, from which the server chooses the site.

use std::io::Read;

use rustls::server::Acceptor;

/// The alert for a server name without a site (RFC 6066 §3): a record with a fatal `unrecognized_name`.
pub const UNRECOGNIZED_NAME: [u8; 7] = [21, 3, 3, 0, 2, 2, 112];

/// What a client states before the server has chosen its settings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientHello {
    /// The server name (SNI), in lower case.
    pub server_name: Option<String>,
}

/// A first message that is invalid.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RejectedHello {
    /// What is wrong with it.
    pub reason: String,
    /// The alert to send.
    pub alert: Vec<u8>,
}

impl ClientHello {
    /// Reads the message at the start of `bytes`. Returns `None` if it is incomplete.
    ///
    /// # Errors
    ///
    /// The message is invalid.
    pub fn read(mut bytes: &[u8]) -> Result<Option<Self>, RejectedHello> {
        let mut acceptor = Acceptor::default();
        loop {
            // Reads at most 4 KiB. Reading from memory fails only if the message is too long.
            let read = acceptor
                .read_tls(&mut bytes as &mut dyn Read)
                .map_err(|error| RejectedHello { reason: error.to_string(), alert: Vec::new() })?;
            match acceptor.accept() {
                Ok(Some(accepted)) => {
                    let name = accepted.client_hello().server_name().map(str::to_ascii_lowercase);
                    return Ok(Some(Self { server_name: name }));
                }
                Ok(None) if read == 0 => return Ok(None),
                Ok(None) => {}
                Err((error, mut alert)) => {
                    let mut bytes = Vec::new();
                    // Writing into memory cannot fail.
                    let _ = alert.write_all(&mut bytes);
                    return Err(RejectedHello { reason: error.to_string(), alert: bytes });
                }
            }
        }
    }
}
