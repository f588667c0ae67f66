//! Tables of requests and the expected responses.

/// A request and the expected response, in a line `REQUEST | NAME: VALUE => STATUS BODY | NAME: VALUE`. Both parts have any number of
/// fields.
#[derive(Debug)]
pub struct Exchange {
    /// The line, for messages.
    pub line: String,
    /// What is before the fields of the request: words such as `GET /`.
    pub request: String,
    /// The field lines of the request.
    pub request_fields: Vec<String>,
    /// The status.
    pub status: u16,
    /// The body, or its beginning if it ends in `...`. `\n` is a line end in it.
    pub body: String,
    /// The names and values of fields of the response. A field without a value is missing.
    pub fields: Vec<(String, String)>,
}

impl Exchange {
    /// Parses the lines of a table. An indented line continues the one before it, and `//` begins a comment.
    pub fn table(text: &str) -> Vec<Self> {
        let text = text.replace("\n    ", " ");
        let lines = text.lines().filter(|line| !line.is_empty() && !line.starts_with("//"));
        lines.map(|line| Self::parse(line).unwrap_or_else(|| panic!("{line:?} is no exchange"))).collect()
    }

    fn parse(line: &str) -> Option<Self> {
        let (request, response) = line.split_once(" => ")?;
        let (mut request, mut response) = (request.split(" | "), response.split(" | "));
        let (status, body) = response.next().map(|first| first.split_once(' ').unwrap_or((first, "")))?;
        let field =
            |field: &str| field.split_once(':').map(|(name, value)| (name.into(), value.trim().into()));
        Some(Self {
            line: line.to_owned(),
            request: request.next()?.to_owned(),
            request_fields: request.map(str::to_owned).collect(),
            status: status.parse().ok()?,
            body: body.replace("\\n", "\n"),
            fields: response.map(field).collect::<Option<_>>()?,
        })
    }

    /// Whether a body is the expected one.
    pub fn has_body(&self, body: &str) -> bool {
        self.body.strip_suffix("...").map_or(body == self.body, |begin| body.starts_with(begin))
    }
}
