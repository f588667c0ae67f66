//! A model of an authority that signs certificates (RFC 8555), and says when to renew them (RFC 9773). It verifies a name over the network of
//! the world, as `http-01`, and does not check the signatures of requests: the library that makes them is not tested here.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, LazyLock};
use std::time::{Duration, SystemTime};

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD as BASE64;
use bytes::Bytes;
use http::{Method, Request, Response, StatusCode};
use parking_lot::Mutex;
use rcgen::{
    BasicConstraints, CertificateParams, CertificateSigningRequestParams, CertifiedIssuer, IsCa, KeyIdMethod,
    KeyPair, PKCS_ED25519, SerialNumber,
};
use rudy_acme::{Exchange, Exchanged};
use rustls::ClientConfig;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::time::{Instant, sleep, timeout};

use super::{ORDER_TIME, SITE, Socket, WallClock, client_config, is_about_certificate};
use crate::judge::{Excuse, Judge, Kind};
use crate::network::SimNetwork;
use crate::trace::Trace;

const URL: &str = "https://authority.test";

/// The longest time in which the server must show the file of a challenge.
const VALIDATION_TIME: Duration = Duration::from_secs(10);

/// How long an authority that hangs keeps a request: the server has given it up by then.
const HANG: Duration = Duration::from_mins(1);

/// The key and the certificate that all runs share. Signatures with Ed25519 have one length.
pub(crate) static ISSUER: LazyLock<CertifiedIssuer<'static, KeyPair>> = LazyLock::new(|| {
    let key = KeyPair::generate_for(&PKCS_ED25519).expect("random bytes");
    let mut parameters = CertificateParams::new(Vec::new()).expect("no names");
    parameters.key_identifier_method = KeyIdMethod::PreSpecified(b"the key of the model".to_vec());
    parameters.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    CertifiedIssuer::self_signed(parameters, key).expect("a certificate of its own")
});

/// Returns a key and a certificate that is valid for a long time.
pub(super) fn signed(name: &str) -> (PrivateKeyDer<'static>, CertificateDer<'static>) {
    let key = KeyPair::generate().expect("random bytes");
    let mut parameters = CertificateParams::new([name.to_owned()]).expect("a name");
    parameters.serial_number = Some(SerialNumber::from(1));
    let certificate = parameters.signed_by(&key, &ISSUER).expect("a key of the model");
    (PrivatePkcs8KeyDer::from(key.serialize_der()).into(), certificate.into())
}

/// An authority.
pub(crate) struct Authority {
    pub(crate) network: &'static SimNetwork,
    pub(crate) judge: Arc<Judge>,
    pub(crate) trace: Arc<Trace>,
    pub(crate) clock: WallClock,
    pub(crate) state: Mutex<State>,
}

pub(crate) struct State {
    pub(crate) random: fastrand::Rng,
    /// How often it does not do what a request asks for, of 1,000.
    pub(crate) faults_per_mille: u32,
    /// Whether it says when to renew a certificate.
    has_opinion: bool,
    /// How long its certificates are valid.
    pub(crate) lifetime: Duration,
    /// The thumbprints of the keys of the accounts.
    accounts: Vec<String>,
    orders: Vec<Order>,
    /// When a certificate was fetched last, from when on it is valid, and for how long.
    fetched: Option<(Instant, SystemTime, Duration)>,
    /// When a process ended last, and with it an order that it may have had.
    process_ended: Option<Instant>,
}

struct Order {
    account: usize,
    created: Instant,
    status: &'static str,
    /// The certificate that it replaces.
    replaces: Value,
    /// What was signed: the certificate, from when on it is valid, and for how long.
    certificate: Option<(String, SystemTime, Duration)>,
}

/// Why an authority refuses a request (RFC 8555 §6.7).
struct Problem {
    status: StatusCode,
    kind: &'static str,
    retry_after_s: Option<u64>,
}

type Answer = Result<(Value, String), Problem>;

impl Authority {
    pub(crate) fn new(
        (network, judge, trace): (&'static SimNetwork, Arc<Judge>, Arc<Trace>),
        clock: WallClock,
        mut random: fastrand::Rng,
    ) -> Arc<Self> {
        let is_right = random.bool();
        if !is_right {
            judge.excuse(Excuse::Authority);
        }
        let state = State {
            faults_per_mille: if is_right { 0 } else { 200 },
            has_opinion: random.bool(),
            lifetime: Duration::from_secs(random.u64(120..600)),
            random,
            accounts: Vec::new(),
            orders: Vec::new(),
            fetched: None,
            process_ended: None,
        };
        Arc::new(Self { network, judge, trace, clock, state: Mutex::new(state) })
    }

    /// Waits until the server has its first certificate, which takes a few seconds.
    pub(crate) async fn wait_for_certificate(&self) {
        let begin = Instant::now();
        while self.state.lock().fetched.is_none() && begin.elapsed() < ORDER_TIME {
            sleep(Duration::from_secs(1)).await;
        }
        // The server reads the file at its next comparison.
        sleep(Duration::from_secs(3)).await;
    }

    /// Checks that the server has a certificate that is valid, after everything works again.
    pub(crate) async fn check_server(&self) {
        let [from, to] = [([10, 3, 0, 1], 40_000), ([10, 0, 0, 1], 443)].map(SocketAddr::from);
        let config = client_config(self.clock, "http/1.1");
        let handshake = async { Socket::new(self.network.dial(from, to).await?, Some(&config)).await };
        let error = handshake.await.err();
        if let Some(error) = error.filter(is_about_certificate) {
            self.judge
                .fault(format!("although everything works, the server has no valid certificate: {error}"));
        }
        // The server notices the end of the connection.
        sleep(Duration::from_secs(5)).await;
    }

    /// A process has ended after another one has replaced it.
    pub(crate) fn process_ended(&self) {
        self.state.lock().process_ended = Some(Instant::now());
    }

    /// From now on, it does what requests ask for, and its certificates last longer than the world.
    pub(crate) fn recover(&self) {
        let mut state = self.state.lock();
        (state.faults_per_mille, state.lifetime) = (0, Duration::from_hours(24));
    }

    async fn respond(&self, request: Request<Bytes>) -> Result<Response<Bytes>, String> {
        let (delay, fault, rejects_nonce) = {
            let State { random, faults_per_mille, .. } = &mut *self.state.lock();
            let delay = Duration::from_micros(random.u64(500..200_000));
            let fault = (random.u32(..1000) < *faults_per_mille).then(|| random.u32(..5));
            (delay, fault, random.u32(..20) == 0)
        };
        sleep(delay).await;
        let path = request.uri().path().to_owned();
        self.trace.tell(&format!(
            "authority: {} {path}{}",
            request.method(),
            fault.map_or("", |_| ", with a fault")
        ));
        let answer = match fault {
            Some(0) => {
                sleep(HANG).await;
                return Err("no response".to_owned());
            }
            Some(1) => return Err("connection reset".to_owned()),
            Some(2) => return Ok(Response::new(Bytes::from_static(b"<h1>Maintenance</h1>"))),
            Some(3) => {
                let retry_after_s = Some(self.state.lock().random.u64(1..60));
                Err(Problem { status: StatusCode::TOO_MANY_REQUESTS, kind: "rateLimited", retry_after_s })
            }
            Some(_) => Err(Problem::new(StatusCode::INTERNAL_SERVER_ERROR, "serverInternal")),
            None if rejects_nonce && request.method() == Method::POST => {
                Err(Problem::new(StatusCode::BAD_REQUEST, "badNonce"))
            }
            None => self.answer(&path, request.body()).await,
        };
        Ok(response(answer))
    }

    /// Does what a request asks for.
    async fn answer(&self, path: &str, body: &[u8]) -> Answer {
        let mut parts = path.trim_start_matches('/').split('/');
        let (what, number) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
        let order = number.parse().unwrap_or(usize::MAX);
        match what {
            "directory" => Ok((self.directory(), String::new())),
            "nonce" => Ok((Value::Null, String::new())),
            "account" => Ok(self.create_account(&Signed::new(body)?)),
            "order" if number.is_empty() => self.create_order(&Signed::new(body)?),
            "order" => self.order(order),
            "authorization" => self.authorization(order),
            "challenge" => self.validate(order).await,
            "finalize" => self.finalize(order, &Signed::new(body)?),
            "certificate" => self.certificate(order),
            "renewal" => self.window(),
            _ => Err(Problem::new(StatusCode::NOT_FOUND, "malformed")),
        }
    }

    fn directory(&self) -> Value {
        json!({
            "newNonce": format!("{URL}/nonce"),
            "newAccount": format!("{URL}/account"),
            "newOrder": format!("{URL}/order"),
            "renewalInfo": self.state.lock().has_opinion.then(|| format!("{URL}/renewal")),
        })
    }

    fn create_account(&self, signed: &Signed) -> (Value, String) {
        let key = &signed.protected["jwk"];
        let thumbprint = format!(r#"{{"crv":"P-256","kty":"EC","x":{},"y":{}}}"#, key["x"], key["y"]);
        let accounts = &mut self.state.lock().accounts;
        accounts.push(BASE64.encode(rudy_tls::sha256(thumbprint.as_bytes())));
        (json!({ "status": "valid" }), format!("{URL}/account/{}", accounts.len() - 1))
    }

    /// Creates an order.
    fn create_order(&self, signed: &Signed) -> Answer {
        let account = signed.protected["kid"].as_str().and_then(|kid| kid.rsplit('/').next()?.parse().ok());
        let account = account.ok_or_else(|| Problem::new(StatusCode::BAD_REQUEST, "accountDoesNotExist"))?;
        let mut state = self.state.lock();
        let (fetched, last) = (state.fetched, state.orders.last());
        let is_open = |last: &&Order| {
            ["pending", "ready"].contains(&last.status) && Some(last.created) > state.process_ended
        };
        let last = last.filter(is_open).map(|last| last.created);
        let replaces = signed.payload["replaces"].clone();
        let created = Instant::now();
        state.orders.push(Order { account, created, status: "pending", replaces, certificate: None });
        let number = state.orders.len() - 1;
        drop(state);
        self.check_time(fetched, last);
        self.order(number)
    }

    /// Checks the time of an order: not before the last certificate is due, not after its end, and not beside another order. `last` is
    /// when one was created that did not end.
    fn check_time(&self, fetched: Option<(Instant, SystemTime, Duration)>, last: Option<Instant>) {
        if let Some((fetched, _, lifetime)) = fetched {
            let age = fetched.elapsed();
            let is_due = age >= lifetime / 3;
            if !is_due && !self.judge.has_set_clock() && !self.judge.is_excused(fetched, None) {
                self.judge.fault(format!("a certificate was ordered {age:?} after the last one"));
            }
            if age >= lifetime && !self.judge.is_certificate_excused(fetched) {
                self.judge.fault(format!("a certificate is renewed {age:?} after the last one, at its end"));
            }
        }
        if last.is_some_and(|last| last.elapsed() < ORDER_TIME && !self.judge.is_certificate_excused(last)) {
            self.judge.fault("two certificates are ordered at a time".to_owned());
        }
    }

    fn order(&self, number: usize) -> Answer {
        let state = self.state.lock();
        let order = state.orders.get(number).ok_or_else(Problem::unknown)?;
        let answer = json!({
            "status": order.status,
            "replaces": order.replaces,
            "identifiers": [{ "type": "dns", "value": SITE }],
            "authorizations": [format!("{URL}/authorization/{number}")],
            "finalize": format!("{URL}/finalize/{number}"),
            "certificate": order.certificate.as_ref().map(|_| format!("{URL}/certificate/{number}")),
        });
        Ok((answer, format!("{URL}/order/{number}")))
    }

    fn authorization(&self, number: usize) -> Answer {
        let state = self.state.lock();
        let order = state.orders.get(number).ok_or_else(Problem::unknown)?;
        let status = if order.status == "ready" { "valid" } else { order.status };
        let challenge = challenge(number, status);
        let identifier = json!({ "type": "dns", "value": SITE });
        Ok((json!({ "identifier": identifier, "status": status, "challenges": [challenge] }), String::new()))
    }

    /// Verifies that the name leads to the server that has ordered.
    async fn validate(&self, number: usize) -> Answer {
        let account = self.state.lock().orders.get(number).map(|order| order.account);
        let thumbprint = account.and_then(|account| self.state.lock().accounts.get(account).cloned());
        let expected = format!("{}.{}", token(number), thumbprint.ok_or_else(Problem::unknown)?);
        let shown = timeout(VALIDATION_TIME, self.fetch_file(number)).await;
        let is_valid = shown.is_ok_and(|shown| shown.is_ok_and(|shown| shown.ends_with(&expected)));
        self.trace.tell(&format!("authority: order {number} is {}valid", if is_valid { "" } else { "in" }));
        let (of_order, of_challenge) = if is_valid { ("ready", "valid") } else { ("invalid", "invalid") };
        if let Some(order) = self.state.lock().orders.get_mut(number) {
            order.status = of_order;
        }
        Ok((challenge(number, of_challenge), String::new()))
    }

    async fn fetch_file(&self, number: usize) -> io::Result<String> {
        let [from, to] = [([10, 3, 0, 0], 40_000), ([10, 0, 0, 1], 80)].map(SocketAddr::from);
        let mut end = self.network.dial(from, to).await?;
        let path = format!("/.well-known/acme-challenge/{}", token(number));
        end.write_all(format!("GET {path} HTTP/1.1\r\nHost: {SITE}\r\nConnection: close\r\n\r\n").as_bytes())
            .await?;
        let mut text = String::new();
        end.read_to_string(&mut text).await?;
        Ok(text)
    }

    fn finalize(&self, number: usize, signed: &Signed) -> Answer {
        let invalid = || Problem::new(StatusCode::BAD_REQUEST, "badCSR");
        let request =
            signed.payload["csr"].as_str().and_then(|csr| BASE64.decode(csr).ok()).ok_or_else(invalid)?;
        let mut request =
            CertificateSigningRequestParams::from_der(&request.into()).map_err(|_| invalid())?;
        let mut state = self.state.lock();
        let (now, lifetime) = (self.clock.now(), state.lifetime);
        let order = state.orders.get_mut(number).ok_or_else(Problem::unknown)?;
        if order.status != "ready" {
            return Err(Problem::new(StatusCode::FORBIDDEN, "orderNotReady"));
        }
        request.params.not_before = now.into();
        request.params.not_after = (now + lifetime).into();
        // Of one length, whatever the number.
        request.params.serial_number = Some(SerialNumber::from(0x4000_0000 + number as u64));
        request.params.use_authority_key_identifier_extension = true;
        let certificate = request.signed_by(&ISSUER).map_err(|_| invalid())?;
        order.certificate = Some((certificate.pem(), now, lifetime));
        order.status = "valid";
        drop(state);
        self.order(number)
    }

    fn certificate(&self, number: usize) -> Answer {
        let mut state = self.state.lock();
        let order = state.orders.get(number).ok_or_else(Problem::unknown)?;
        let (certificate, since, lifetime) = order.certificate.clone().ok_or_else(Problem::unknown)?;
        if state.fetched.replace((Instant::now(), since, lifetime)).is_some() {
            self.judge.happens(Kind::Expiry);
        }
        Ok((Value::String(certificate), String::new()))
    }

    /// When to renew the last certificate: from a half of its time on, until two thirds of it.
    fn window(&self) -> Answer {
        let fetched = self.state.lock().fetched;
        let (_, since, lifetime) = fetched.ok_or_else(Problem::unknown)?;
        let at = |time| jiff::Timestamp::try_from(time).map(|time| time.to_string()).unwrap_or_default();
        let window = json!({ "start": at(since + lifetime / 2), "end": at(since + lifetime * 2 / 3) });
        Ok((json!({ "suggestedWindow": window }), String::new()))
    }
}

impl Problem {
    fn new(status: StatusCode, kind: &'static str) -> Self {
        Self { status, kind, retry_after_s: None }
    }

    fn unknown() -> Self {
        Self::new(StatusCode::NOT_FOUND, "malformed")
    }
}

/// How the server reaches an authority.
#[derive(Clone)]
pub(crate) struct Reached(pub(crate) Option<Arc<Authority>>);

impl fmt::Debug for Reached {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Reached")
    }
}

impl Exchange for Reached {
    fn exchange(&self, _: Arc<ClientConfig>, request: Request<Bytes>) -> Exchanged {
        let authority = self.0.clone();
        Box::pin(async move { authority.ok_or("there is no authority")?.respond(request).await })
    }
}

/// A signed request, decoded (RFC 8555 §6.2).
struct Signed {
    protected: Value,
    payload: Value,
}

impl Signed {
    fn new(body: &[u8]) -> Result<Self, Problem> {
        let body: Value = serde_json::from_slice(body).unwrap_or_default();
        let part = |name: &str| {
            let decoded = BASE64.decode(body[name].as_str().unwrap_or_default()).unwrap_or_default();
            serde_json::from_slice(&decoded).unwrap_or_default()
        };
        let (protected, payload): (Value, Value) = (part("protected"), part("payload"));
        let is_signed = protected["nonce"].is_string() && protected["url"].is_string();
        let problem = || Problem::new(StatusCode::BAD_REQUEST, "malformed");
        is_signed.then_some(Self { protected, payload }).ok_or_else(problem)
    }
}

fn token(order: usize) -> String {
    format!("token-of-order-{order:08}")
}

fn challenge(order: usize, status: &str) -> Value {
    let error = (status == "invalid").then(|| json!({ "type": "urn:ietf:params:acme:error:unauthorized" }));
    json!({
        "type": "http-01", "url": format!("{URL}/challenge/{order}"), "token": token(order), "status": status,
        "error": error,
    })
}

/// Writes an answer: a problem, a certificate or an object, with its address.
fn response(answer: Answer) -> Response<Bytes> {
    let response = Response::builder().header("replay-nonce", "nonce").header("retry-after", 60);
    let built = match answer {
        Ok((Value::String(text), _)) => response.body(text.into()),
        Ok((value, location)) => response.header("location", location).body(value.to_string().into()),
        Err(Problem { status, kind, retry_after_s }) => {
            let kind = format!("urn:ietf:params:acme:error:{kind}");
            let response = Response::builder().status(status).header("replay-nonce", "nonce");
            let response = match retry_after_s {
                Some(seconds) => response.header("retry-after", seconds),
                None => response,
            };
            response.body(json!({ "type": kind, "detail": "of the model" }).to_string().into())
        }
    };
    built.expect("valid fields")
}
