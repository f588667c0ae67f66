//! Error pages: files, templates and paths of the site, instead of the pages that the server generates.

mod folder;
mod table;
use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use http::StatusCode;
use minijinja::{Environment, context};
use rudy_message::semantics::path::RequestPath;
use rudy_message::semantics::reason::reason_phrase;
use rudy_pipeline::pages::{self, Form};
use rudy_pipeline::request_state::{HasRequestState, HasResponseState};
use rudy_pipeline::routing::template::Template;
use rudy_pipeline::routing::without_port;
use rudy_pipeline::{Call, Flow, Kept, Passage, ResponseStep, Step, internal_redirect};
use rudy_service::{Body, Reply, Request, Response};

pub use self::table::ErrorPagesTable;

/// The statuses of a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Statuses {
    One(StatusCode),
    /// `4xx` or `5xx`: the first digit.
    Class(u16),
    /// All errors.
    All,
}

impl Statuses {
    /// Reads `404`, `4xx` or `error`.
    fn parse(text: &str) -> Option<Self> {
        match text {
            "error" => Some(Self::All),
            "4xx" => Some(Self::Class(4)),
            "5xx" => Some(Self::Class(5)),
            _ => {
                let status = text.parse().ok().filter(|_| text.len() == 3)?;
                StatusCode::from_u16(status).ok().filter(|status| is_error(*status)).map(Self::One)
            }
        }
    }

    fn include(self, status: StatusCode) -> bool {
        match self {
            Self::One(one) => one == status,
            Self::Class(class) => status.as_u16() / 100 == class,
            Self::All => true,
        }
    }
}

impl fmt::Display for Statuses {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::One(status) => write!(f, "{}", status.as_str()),
            Self::Class(class) => write!(f, "{class}xx"),
            Self::All => f.write_str("other errors"),
        }
    }
}

pub(crate) fn is_error(status: StatusCode) -> bool {
    status.is_client_error() || status.is_server_error()
}

/// Where a page comes from.
#[derive(Debug, Clone)]
enum Source {
    /// A path of the site, for which another request is made.
    Path(RequestPath<'static>),
    /// A path of the site that responds instead, with its own status.
    Rewrite(Template),
    /// The content of a file.
    File(Bytes),
    /// A template in the environment of all pages.
    Template(String),
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Path(path) => write!(f, "that of {}", path.encoded_from(0)),
            Self::Rewrite(to) => write!(f, "the response of {to}"),
            Self::File(content) => write!(f, "a file of {} bytes", content.len()),
            Self::Template(name) => write!(f, "the template {name}.j2"),
        }
    }
}

/// The pages of a site or a route. The first page for a status is used.
#[derive(Debug, Default)]
pub struct Pages {
    list: Vec<(Statuses, Source)>,
    templates: Environment<'static>,
    /// The pages of the site, behind those of a route.
    of_site: Option<Arc<Pages>>,
}

impl Pages {
    /// Returns the first page, and where its template is.
    fn find(&self, status: StatusCode) -> Option<(&Self, &Source)> {
        let own = self.list.iter().find(|(statuses, _)| statuses.include(status));
        own.map(|(_, source)| (self, source)).or_else(|| self.of_site.as_ref()?.find(status))
    }

    /// Returns all pages in the order of the search.
    fn all(&self) -> Vec<&(Statuses, Source)> {
        self.list.iter().chain(self.of_site.iter().flat_map(|pages| &pages.list)).collect()
    }

    /// Returns the page for a failed response.
    fn page(&self, failed: Response, kept: Request<'_>, call: &Call<'_>) -> Reply {
        let Some((pages, source)) = self.find(failed.status()) else { return failed.into() };
        let explanation = failed.state().explanation.clone().unwrap_or_default();
        let page = match source {
            Source::Path(path) => return call.context.page_of(failed, kept, path.clone()),
            Source::Rewrite(to) => {
                return match internal_redirect::rewritten(to, &call.subject(&kept)) {
                    Ok(target) => call.context.instead_of(failed, kept, target),
                    Err(_) => failed.into(),
                };
            }
            // A client of an API cannot read a page.
            _ if Form::preferred(kept.headers()) == Form::Json => {
                pages::of_form(Form::Json, failed.status(), &explanation)
            }
            Source::File(content) => pages::page(failed.status(), HTML, content.clone()),
            Source::Template(name) => match pages.render(name, failed.status(), &explanation, &kept) {
                Ok(text) => pages::page(failed.status(), HTML, text),
                // `rudy check` renders every template, so that this does not happen.
                Err(_) => return failed.into(),
            },
        };
        internal_redirect::with_page(failed, page.into())
    }

    fn render(
        &self,
        name: &str,
        status: StatusCode,
        explanation: &str,
        request: &Request<'_>,
    ) -> Result<String, minijinja::Error> {
        let host = String::from_utf8_lossy(without_port(request.host())).into_owned();
        let reason = reason_phrase(status).unwrap_or("Error");
        let path = request.uri().path();
        let page = self.templates.get_template(name)?;
        page.render(context! { status => status.as_u16(), reason, explanation, host, path })
    }
}

const HTML: &str = "text/html; charset=utf-8";

/// Replaces error responses with the pages for their statuses.
#[derive(Debug)]
pub struct ErrorPages {
    /// The pages by status.
    pub pages: Arc<Pages>,
    /// Whether errors of applications are replaced, too.
    pub intercepts: bool,
}

impl ErrorPages {
    fn replaces(&self, response: &Response) -> bool {
        // The route that an internal redirect led to has its own pages, also if one of them failed. An app that has named what is
        // missing may have more to say.
        let state = response.state();
        is_error(response.status())
            && (!state.is_redirected || state.is_replacement)
            && !matches!(response.body, Body::Silence)
            && !state.has_page
            && (self.intercepts || state.explanation.is_some())
    }
}

impl Step for ErrorPages {
    fn request(&self, passage: &mut Passage<'_>, _: &Call<'_>) -> Flow {
        passage.kept.head = Some(Box::new(internal_redirect::copy_head(&passage.request)));
        Flow::Continue
    }

    fn for_responses(&self) -> Option<&dyn ResponseStep> {
        Some(self)
    }

    fn describe(&self) -> Vec<String> {
        let of = if self.intercepts { "errors of apps too" } else { "errors of the server" };
        let pages = self
            .pages
            .all()
            .into_iter()
            .map(|(statuses, source)| format!("error page for {statuses}: {source} ({of})"));
        pages.collect()
    }
}

impl ResponseStep for ErrorPages {
    fn response(&self, response: Response, kept: &mut Kept<'_>, call: &Call<'_>) -> Reply {
        let Some(mut head) = kept.head.take().filter(|_| self.replaces(&response)) else {
            return response.into();
        };
        // The page must not be counted again, nor need another login.
        let state = head.state_mut();
        state.counted.add(&kept.counted);
        state.login = kept.login.take().or(state.login.take());
        self.pages.page(response, *head, call)
    }
}
