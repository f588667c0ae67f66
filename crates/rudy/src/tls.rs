//! The flags of `rudy tls`.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use rudy_command::Exit;
use rudy_lab::Handshakes;
use rudy_load::tls::{Options, parse_server};
use rudy_request::{Access, Trust, Url};

use crate::values::{time, unsupported};

/// Take the TLS handshake with a server apart, and check its certificates
///
/// Connects, completes the handshake and sends a HEAD request, then does so again with the session of an earlier connection. Prints
/// when each phase was complete, with its round trips, bytes and packets; the negotiated parameters; the certificates, and
/// everything that is wrong with them; and whether the server resumes sessions and accepts early data.
///
/// Continues when certificates are invalid, to report all problems at once. Sends no credentials.
#[derive(Debug, Args)]
#[command(
    arg(unsupported("-k", "rudy tls continues with invalid certificates; `problems` lists what is wrong")),
    arg(unsupported(
        "--insecure",
        "rudy tls continues with invalid certificates; `problems` lists what is wrong"
    )),
    arg(unsupported("--starttls", "rudy tls does not support STARTTLS; use `openssl s_client -starttls`")),
    after_help = "Examples:
  rudy tls example.org                                 the handshake and the certificates
  rudy tls --expires-within 14d example.org            for a monitor: exit code 3 if a certificate expires soon
  rudy tls --cacert authority.pem --crl list.pem localhost:8443
  rudy tls --connect 10.0.0.7 example.org              the server at another address, before DNS points to it
  rudy tls --round-trip 117ms localhost:8443           the handshake as seen from another continent
  rudy tls --matrix --plot keys.svg                    what each type of key costs, on this machine
  rudy tls --json example.org | jq '.full.phases.tls_done.at_s'

TIME is 10s, 2m, 14d, or a number of seconds.
Exit codes: 0 no problem, 1 no connection or no handshake, 2 invalid arguments, 3 a certificate has a problem or expires
within --expires-within, 130 interrupted."
)]
pub(crate) struct Tls {
    /// Server to connect to [default port: 443]
    #[arg(value_name = "HOST[:PORT]", value_parser = parse_server, required_unless_present = "matrix")]
    server: Option<Url>,
    /// Server name to send (SNI) and to check the certificate for [default: the host]
    #[arg(long, alias = "servername", alias = "sni", value_name = "NAME")]
    server_name: Option<String>,
    /// Host or address to connect to instead
    #[arg(long, alias = "connect-to", value_name = "HOST[:PORT]", value_parser = parse_server)]
    connect: Option<Url>,
    /// Connect to this Unix socket instead
    #[arg(long, value_name = "PATH", conflicts_with = "connect")]
    unix_socket: Option<PathBuf>,
    /// CA certificates to trust instead of the system's, in PEM format
    #[arg(long, visible_alias = "ca", alias = "CAfile", value_name = "FILE")]
    cacert: Option<PathBuf>,
    /// Revocation list of an authority, in PEM or DER format (repeatable)
    #[arg(long, value_name = "FILE")]
    crl: Vec<PathBuf>,
    /// Exit with code 3 if a certificate expires within this time
    #[arg(long, value_name = "TIME", value_parser = time)]
    expires_within: Option<Duration>,
    /// Maximum time for each connection, name lookup and response included
    #[arg(long, alias = "connect-timeout", value_name = "TIME", default_value = "10s", value_parser = time)]
    timeout: Duration,
    /// Simulate a longer path with this round-trip time, with a relay in this process
    #[arg(long, value_name = "TIME", value_parser = time, conflicts_with = "unix_socket")]
    round_trip: Option<Duration>,
    /// Print the report as JSON
    #[arg(long)]
    json: bool,
    /// Measure handshakes with each type of key instead, against servers that this command starts
    ///
    /// Runs the plan `handshakes` of `rudy lab`: RSA 2048, 3072 and 4096, P-256, P-384 and Ed25519; full handshakes, resumed ones
    /// and early data; with and without keep-alive; Rudy and nginx; and ten resources over a path of 117 ms. Takes four minutes.
    #[arg(long, conflicts_with = "server", help_heading = "Matrix")]
    matrix: bool,
    /// Number of rounds; the tables have the medians
    #[arg(long, value_name = "N", default_value = "1", requires = "matrix", help_heading = "Matrix")]
    rounds: usize,
    /// Run only this server with its key, or this workload, such as rudy-p-256 or full (repeatable)
    #[arg(long, value_name = "NAME", requires = "matrix", help_heading = "Matrix")]
    only: Vec<String>,
    /// Measure for one second each
    #[arg(long, requires = "matrix", help_heading = "Matrix")]
    quick: bool,
    /// Write a chart of the CPU time of full handshakes by the size of the key, as SVG
    #[arg(long, value_name = "FILE", requires = "matrix", help_heading = "Matrix")]
    plot: Option<PathBuf>,
    /// Results folder to keep, for `rudy lab report`
    #[arg(long, value_name = "DIR", requires = "matrix", help_heading = "Matrix")]
    out: Option<PathBuf>,
}

impl Tls {
    /// Runs the command and returns its exit code.
    pub(crate) fn run(self) -> Exit {
        let Some(server) = self.server else {
            return rudy_lab::handshakes(&Handshakes {
                rounds: self.rounds,
                only: self.only,
                out: self.out,
                plot: self.plot,
                is_json: self.json,
                is_quick: self.quick,
            });
        };
        rudy_load::tls::tls(&Options {
            server,
            server_name: self.server_name,
            connect: self.connect,
            access: Access {
                trust: self.cacert.map_or(Trust::Platform, Trust::File),
                unix_socket: self.unix_socket,
                round_trip: self.round_trip,
                ..Access::default()
            },
            revocation_lists: self.crl,
            expires_within: self.expires_within,
            timeout: self.timeout,
            is_json: self.json,
        })
    }
}
