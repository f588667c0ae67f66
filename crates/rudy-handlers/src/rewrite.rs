//! The `rewrite` handler: responds with another path of the site, without telling the client.

use http::{StatusCode, Uri};
use rudy_config::{Problem, Table};
use rudy_message::semantics::path::RequestPath;
use rudy_pipeline::methods::APP_METHODS;
use rudy_pipeline::routing::template::{Subject, Template};
use rudy_pipeline::{BuildContext, Call, Handler, HandlerConfig, internal_redirect, pages};
use rudy_service::{Reply, Request};

/// Responds with another path of the site: a table, or the path alone.
#[derive(Debug, Clone, Table)]
#[setting(short(to), what = "a path (\"/index.php\") or a table", example = "/index.php")]
pub struct RewriteTable {
    /// Path to respond with, such as `/index.php` or `/product.php?id={1}`. `{path}`, `{rest}`, `{query}`, `{host}` and groups
    /// of a `regex:` path are filled in. Without a question mark, the query of the request is kept. The route of the new path
    /// responds, with its own authorization.
    #[setting(example = "/product.php?id={1}")]
    pub to: String,
}

impl HandlerConfig for RewriteTable {
    fn describe(&self) -> String {
        format!("to {}", self.to)
    }

    fn build(&self, route: &BuildContext<'_>) -> Result<Box<dyn Handler>, Vec<Problem>> {
        let template = Template::parse(&self.to).and_then(|template| {
            template.check_target(route.scope())?;
            if self.to.starts_with('/') || self.to.starts_with("{path}") {
                return Ok(template);
            }
            let expected = "expected \"/...\"; `redirect` leads to other hosts".to_owned();
            Err(("a rewrite leads to a path of the same site".to_owned(), expected))
        });
        match template {
            Ok(template) => Ok(Box::new(Rewrite(template))),
            Err((title, expected)) => {
                Err(vec![Problem::value(&route.location.key("to"), title).label(expected)])
            }
        }
    }
}

/// A rewrite to a path made from the request.
#[derive(Debug)]
struct Rewrite(Template);

impl RewriteTable {
    /// Returns the URI and the canonical path that a request is rewritten to.
    pub fn target(&self, subject: &Subject<'_>) -> Result<(Uri, RequestPath<'static>), String> {
        let template = Template::parse(&self.to).map_err(|(title, _)| title)?;
        internal_redirect::rewritten(&template, subject)
    }
}

impl Handler for Rewrite {
    fn call(&self, mut request: Request<'_>, call: Call<'_>) -> Reply {
        match internal_redirect::rewritten(&self.0, &call.subject(&request)) {
            Ok((uri, path)) => {
                internal_redirect::rewrite(&mut request, uri);
                call.context.redirect(request, path)
            }
            Err(explanation) => pages::error(StatusCode::BAD_REQUEST, request.headers(), &explanation).into(),
        }
    }

    fn methods(&self) -> &'static str {
        APP_METHODS
    }
}
