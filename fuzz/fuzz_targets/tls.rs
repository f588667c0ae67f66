//! The server's side of TLS: a client's records arrive in any pieces, damaged or with other bytes in between, while the server
//! sends. Nothing panics, and what arrives undamaged is what the client sent.
#![no_main]

use std::io::Write;
use std::sync::{Arc, LazyLock};

use libfuzzer_sys::fuzz_target;
use rudy_tls::{
    Certificate, ClientHello, RECORD_OVERHEAD_BYTES, Session, SiteSettings, TicketKey, TicketKeys, TlsSite, self_signed,
};
use rustls::pki_types::{CertificateDer, ServerName, pem::PemObject};
use rustls::{ClientConfig, ClientConnection, RootCertStore};

static SITE: LazyLock<(TlsSite, Arc<ClientConfig>)> = LazyLock::new(|| {
    let pem = self_signed(&["a.test".to_owned()], std::time::SystemTime::now()).expect("a certificate");
    let certificate = Certificate::from_pem(pem.as_bytes(), pem.as_bytes()).expect("a matching key");
    let keys = Arc::<TicketKeys>::default();
    keys.set_from(&TicketKey::random().expect("random bytes"));
    let site = TlsSite::new(SiteSettings { certificates: vec![certificate], ..SiteSettings::default() }, &keys);
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(pem.as_bytes()).expect("a certificate")).expect("a valid one");
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let client = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let client = client.expect("versions").with_root_certificates(roots).with_no_client_auth();
    (site.expect("consistent settings"), Arc::new(client))
});

fuzz_target!(|script: &[u8]| {
    // An error is fine, a panic is not.
    let _ = ClientHello::read(script);
    let (site, config) = &*SITE;
    let name = ServerName::try_from("a.test").expect("a valid name");
    let mut client = ClientConnection::new(config.clone(), name).expect("consistent settings");
    let mut session = Session::new(site).expect("consistent settings");
    let (mut wire, mut rest, mut received, mut sent) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    let mut is_damaged = false;
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
        assert!(is_damaged || sent.starts_with(&received));
        if client.read_tls(&mut &output[..]).is_err() || client.process_new_packets().is_err() {
            return;
        }
    }
});
