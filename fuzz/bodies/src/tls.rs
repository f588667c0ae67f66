//! The server's side of TLS: a client's records arrive in any pieces, damaged or with other bytes in between, while the server
//! sends. Nothing panics, and what arrives undamaged is what the client sent.

use std::io::Write;
use std::sync::{Arc, LazyLock};

use rudy_tls::{
    Certificate, ClientHello, RECORD_OVERHEAD_BYTES, Session, SingleUseSessions, SiteSettings, TicketKey,
    TicketKeys, TlsSite, self_signed,
};
use rustls::client::Resumption;
use rustls::pki_types::{CertificateDer, ServerName, pem::PemObject};
use rustls::{ClientConfig, ClientConnection, RootCertStore};

static SITE: LazyLock<(TlsSite, Arc<ClientConfig>)> = LazyLock::new(|| {
    let pem = self_signed(&["a.test".to_owned()], std::time::SystemTime::now()).expect("a certificate");
    let certificate = Certificate::from_pem(pem.as_bytes(), pem.as_bytes()).expect("a matching key");
    let keys = Arc::<TicketKeys>::default();
    keys.set_from(&TicketKey::random().expect("random bytes"));
    let early_data = Some(SingleUseSessions::new());
    let settings =
        SiteSettings { certificates: vec![Arc::new(certificate)], early_data, ..SiteSettings::default() };
    let site = TlsSite::new(&settings, &keys);
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(pem.as_bytes()).expect("a certificate")).expect("a valid one");
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let client = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let mut client = client.expect("versions").with_root_certificates(roots).with_no_client_auth();
    client.enable_early_data = true;
    (site.expect("consistent settings"), Arc::new(client))
});

fn client(config: &Arc<ClientConfig>) -> ClientConnection {
    let name = ServerName::try_from("a.test").expect("a valid name");
    ClientConnection::new(config.clone(), name).expect("consistent settings")
}

/// Returns the settings of a client that has a session, and can send early data.
fn returning(site: &TlsSite, config: &ClientConfig) -> Arc<ClientConfig> {
    let mut config = config.clone();
    config.resumption = Resumption::in_memory_sessions(1);
    let config = Arc::new(config);
    let hello = ClientHello::default();
    let (mut client, mut session) =
        (client(&config), Session::new(site, &hello).expect("consistent settings"));
    while client.is_handshaking() || client.wants_write() {
        let (mut wire, mut output) = (Vec::new(), Vec::new());
        while client.wants_write() {
            client.write_tls(&mut wire).expect("memory");
        }
        session.receive(&mut wire, &mut output, |_| {}).expect("a valid client");
        while !output.is_empty() {
            let read = client.read_tls(&mut &output[..]).expect("memory");
            output.drain(..read);
            client.process_new_packets().expect("a valid server");
        }
    }
    config
}

pub(crate) fn run(script: &[u8]) {
    // An error is fine, a panic is not.
    let _ = ClientHello::read(script);
    let (site, config) = &*SITE;
    let is_returning = script.first().is_some_and(|first| first % 2 == 1);
    let mut client = if is_returning { client(&returning(site, config)) } else { client(config) };
    let prefers_chacha = script.last().is_some_and(|last| last % 2 == 1);
    let hello = ClientHello { prefers_chacha, ..ClientHello::default() };
    let mut session = Session::new(site, &hello).expect("consistent settings");
    let (mut wire, mut rest, mut received, mut sent) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    let mut is_damaged = false;
    let mut early_bytes = 0;
    if let Some(mut early) = client.early_data() {
        early.write_all(b"early").expect("it is short");
        sent.extend(b"early");
        early_bytes = sent.len();
    }
    for step in script.chunks(2) {
        let argument = usize::from(step.get(1).copied().unwrap_or_default());
        while client.wants_write() {
            client.write_tls(&mut wire).expect("memory");
        }
        let mut output = Vec::new();
        match step[0] % 5 {
            // The next bytes arrive.
            0 | 1 => rest.extend(wire.drain(..wire.len().min(1 + argument * 16))),
            2 if !wire.is_empty() => {
                is_damaged = true;
                let at = argument % wire.len();
                wire[at] ^= 1 << (argument % 8);
            }
            3 => {
                if client.writer().write(&[step[0], 1, 2]).is_ok() {
                    sent.extend([step[0], 1, 2]);
                }
            }
            _ => {
                let mut record = [0; 64 + RECORD_OVERHEAD_BYTES];
                if let Ok(length) = session.send(&mut rest, &[7; 64], &mut record) {
                    output.extend(&record[..length]);
                }
            }
        }
        let taken = session.receive(&mut rest, &mut output, |plaintext| received.extend(plaintext));
        let Ok(taken) = taken else { return };
        rest.drain(..taken);
        // Early data is rejected if the suite is not that of the session before (RFC 8446 section 4.2.10).
        let is_sent = sent.starts_with(&received) || sent[early_bytes..].starts_with(&received);
        assert!(is_damaged || is_sent);
        if client.read_tls(&mut &output[..]).is_err() || client.process_new_packets().is_err() {
            return;
        }
    }
}
