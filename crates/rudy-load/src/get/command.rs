//! Runs `rudy get`, from the options to the last report.

use std::collections::HashMap;
use std::io::{self, Write};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use http::{HeaderMap, Method, Version, header};
use rudy_command::{Exit, print_line, report_error};
use rudy_request::{BackOff, Error, Report, Session, Template, Url, Waiter, follow, is_redirect};

use super::options::Options;
use super::output::Output;
use super::report::Shown;
use crate::body::Bodies;
use crate::units::{Visible, visible_json};

/// Maximum delay with `Retry-After`: a command that sleeps for a day looks as if it hangs.
const RETRY_AFTER_MAX: Duration = Duration::from_hours(1);

/// Sends the requests and reports each of them.
#[must_use]
pub fn get(options: &Options) -> Exit {
    let template = match template(options) {
        Ok(template) => template,
        Err(message) => return report_error(Exit::BadInput, &message),
    };
    let output = match open_output(options) {
        Ok(output) => output,
        Err(message) => return report_error(Exit::CannotRun, &message),
    };
    let waiter = match Waiter::catch() {
        Ok(waiter) => waiter,
        Err(error) => return report_error(Exit::CannotRun, &format!("cannot catch Ctrl-C: {error}")),
    };
    if let Some(name) = options.proxy_variable.filter(|_| !options.is_quiet) {
        print_line(&format!(
            "notice: {name} is set, but rudy get connects directly; use curl to measure through a proxy"
        ));
    }
    let mut fetcher = Fetcher {
        options,
        session: Session::new(&options.requests, &waiter),
        output,
        back_offs: HashMap::new(),
        exit: Exit::Done,
    };
    match fetcher.run(&template) {
        Some(signal) => Exit::Signal(signal),
        None => fetcher.exit,
    }
}

/// Fetches the URLs and reports each request.
struct Fetcher<'a> {
    options: &'a Options,
    session: Session<'a>,
    output: Output,
    /// The back-offs of servers, by scheme, host and port. Their number is bounded by the URLs and their redirects.
    back_offs: HashMap<String, ServerBackOff>,
    exit: Exit,
}

/// The back-off of a server, and the time at which it ends.
#[derive(Debug)]
struct ServerBackOff {
    back_off: BackOff,
    until: Option<Instant>,
}

impl Default for ServerBackOff {
    fn default() -> Self {
        Self { back_off: BackOff::new(RETRY_AFTER_MAX), until: None }
    }
}

impl Fetcher<'_> {
    /// Fetches all URLs as often as requested. Returns the signal that ended the command, if any.
    fn run(&mut self, template: &Template) -> Option<u8> {
        let rounds = self.options.repeat.get();
        for round in 0..rounds {
            if round > 0
                && let Err(signal) = self.session.rest(Instant::now().checked_add(self.options.interval))
            {
                return Some(signal);
            }
            let count = self.options.urls.len();
            for (index, url) in self.options.urls.iter().enumerate() {
                let is_last = round + 1 == rounds && index + 1 == count;
                if let Err(signal) = self.fetch(url, template, is_last) {
                    return Some(signal);
                }
            }
        }
        None
    }

    /// Fetches a URL and follows its redirects. The error is a signal.
    fn fetch(&mut self, url: &Url, template: &Template, is_last: bool) -> Result<(), u8> {
        let (mut url, mut template) = (url.clone(), template.clone());
        let mut redirects = 0;
        loop {
            self.wait_for_back_off(&url)?;
            let (report, error) = self.session.send(&url, &template, is_last, &mut self.output);
            self.print_report(&report);
            self.record_back_off(&url, &report);
            if let Some(error) = error {
                return self.fail(&error);
            }
            match self.redirect(&report, &url, &template, redirects) {
                Ok(Some(next)) => (url, template) = next,
                Ok(None) => return Ok(()),
                Err(error) => return self.fail(&error),
            }
            redirects += 1;
        }
    }

    /// The next request, if the response is a redirect to follow.
    fn redirect(
        &mut self,
        report: &Report,
        url: &Url,
        template: &Template,
        redirects: u32,
    ) -> Result<Option<(Url, Template)>, Error> {
        let Some(head) = &report.head else { return Ok(None) };
        match (self.options.requests.redirects, head.get(header::LOCATION)) {
            (Some(max), Some(location)) if is_redirect(head.status) => {
                if redirects == max.get() {
                    return Err(Error::TooManyRedirects(max.get()));
                }
                follow(head.status, location, url, template).map(Some)
            }
            _ => {
                if self.options.requests.fails && head.status >= 400 && self.exit == Exit::Done {
                    self.exit = Exit::ErrorStatus;
                }
                Ok(None)
            }
        }
    }

    fn fail(&mut self, error: &Error) -> Result<(), u8> {
        self.exit = report_error(Exit::CannotRun, &error.to_string());
        match error {
            Error::Interrupted(signal) => Err(*signal),
            _ => Ok(()),
        }
    }

    fn print_report(&self, report: &Report) {
        if self.options.is_json {
            // A closed pipe is no error: the reader has read enough.
            let _ = writeln!(io::stdout(), "{}", visible_json(&Shown(report).to_json()));
        } else if !self.options.is_quiet {
            let _ = write!(Visible(io::stderr()), "{}", Shown(report));
        }
    }

    /// Records the back-off if a response asks for fewer requests.
    fn record_back_off(&mut self, url: &Url, report: &Report) {
        let Some(head) = report.head.as_ref().filter(|_| self.options.backs_off) else { return };
        let now_unix_s = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs());
        let server = self.back_offs.entry(origin(url)).or_default();
        let wait = server.back_off.delay_after(head.status, head.get(header::RETRY_AFTER), now_unix_s);
        server.until = wait.and_then(|wait| Instant::now().checked_add(wait));
    }

    /// Waits until the back-off of the server ends. The error is a signal.
    fn wait_for_back_off(&mut self, url: &Url) -> Result<(), u8> {
        let until = self.back_offs.get_mut(&origin(url)).and_then(|server| server.until.take());
        let left = until.map_or(Duration::ZERO, |until| until.saturating_duration_since(Instant::now()));
        if left.is_zero() {
            return Ok(());
        }
        print_line(&format!(
            "waiting {:.1} s: {} asks for fewer requests (--no-backoff disables this)",
            left.as_secs_f64(),
            url.authority()
        ));
        self.session.rest(until)
    }
}

fn origin(url: &Url) -> String {
    format!("{} {}", url.is_secure(), url.host_and_port())
}

fn template(options: &Options) -> Result<Template, String> {
    let body = options.body.as_deref().map(|text| Bodies::default().read_value(text)).transpose()?;
    let mut fields = HeaderMap::new();
    for (name, value) in &options.fields {
        fields.append(name, value.clone());
    }
    let default = if body.is_some() { Method::POST } else { Method::GET };
    let method = options.method.clone().unwrap_or(default);
    if method == Method::CONNECT {
        return Err(
            "CONNECT opens a tunnel through a proxy, which rudy get does not support; use curl -p -x PROXY"
                .into(),
        );
    }
    Ok(Template {
        method,
        fields,
        body,
        version: if options.is_http_10 { Version::HTTP_10 } else { Version::HTTP_11 },
        protocols: options.requests.protocols,
        keep_alive: options.requests.keeps_alive,
    })
}

fn open_output(options: &Options) -> Result<Output, String> {
    match &options.output {
        Some(path) => {
            Output::file(path).map_err(|error| format!("cannot write to {}: {error}", path.display()))
        }
        None if options.is_json => Ok(Output::Discard),
        None => Output::standard().map_err(|error| format!("cannot write to standard output: {error}")),
    }
}
