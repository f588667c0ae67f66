//! Changes to header fields in the configuration.

use http::{HeaderName, HeaderValue, header};
use rudy_config::{
    FieldName, Invalid, Location, OneOrMany, Problem, Setting, Shape, Table, Value, field_table, two_lines,
};

use rudy_message::semantics::date::HttpDate;
use rudy_message::syntax::members;

use crate::patterns::template::Scope;
use crate::patterns::template::{Piece, Template};

/// Changes to header fields by name: `{ X-Frame-Options = "DENY", Server = false }`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FieldChanges(pub Vec<FieldChange>);

/// A change to a field.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FieldChange {
    /// The name as written.
    pub key: String,
    /// The name of the field.
    pub name: HeaderName,
    /// What is changed.
    pub action: Action<Template>,
    /// Whether it is for responses of every status, also if its value lets caches store them.
    pub always: bool,
}

/// What is changed, with values of type `V`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action<V> {
    /// Replaces the field with these lines.
    Set(Vec<V>),
    /// Adds lines.
    Add(Vec<V>),
    /// Sets the field if it is missing.
    Default(V),
    /// Replaces a text by another one, wherever it is in the lines.
    Replace {
        /// The text to find.
        text: V,
        /// What takes its place.
        with: V,
    },
    /// Removes the field.
    Remove,
}

/// A change to a field, with values of type `V`.
#[derive(Debug, Clone)]
pub struct Change<V> {
    /// The name of the field.
    pub name: HeaderName,
    /// What is changed.
    pub action: Action<V>,
    /// Whether it is for successful responses only.
    pub on_success: bool,
}

impl FieldChange {
    /// Returns a change that sets a field if a response lacks it.
    #[must_use]
    pub fn default(name: &'static str, value: &str) -> Self {
        let (key, value) = (name.to_owned(), Template::literal(value));
        let name = HeaderName::from_bytes(name.as_bytes()).expect("a name of the preset");
        Self { key, name, action: Action::Default(value), always: true }
    }

    /// Returns a change that sets a field.
    pub fn set(name: &HeaderName, value: &str) -> Self {
        let action = Action::Set(vec![Template::literal(value)]);
        Self { key: name.to_string(), name: name.clone(), action, always: true }
    }

    /// Whether the change is for successful responses (2xx and 304) only: caches would keep an error for as long.
    #[must_use]
    pub fn is_on_success(&self) -> bool {
        !self.always
            && self.action.values().iter().any(|value| lets_store(&self.name, value.to_string().as_bytes()))
    }
}

/// Whether a value of a field lets caches store a response.
#[must_use]
pub fn lets_store(name: &HeaderName, value: &[u8]) -> bool {
    match name.as_str() {
        "expires" => HttpDate::parse(value).is_some_and(|date| date.unix_seconds() > LONG_PAST),
        "cache-control" | "cdn-cache-control" | "surrogate-control" => {
            let directives = || members(value).map(<[u8]>::to_ascii_lowercase);
            let is_time = |directive: &[u8], name: &[u8]| {
                directive.strip_prefix(name).is_some_and(|time| time.iter().any(|digit| *digit != b'0'))
            };
            !directives().any(|directive| matches!(&directive[..], b"no-store" | b"no-cache"))
                && directives().any(|directive| {
                    matches!(&directive[..], b"public" | b"immutable")
                        || TIMES.iter().any(|name| is_time(&directive, name))
                })
        }
        _ => false,
    }
}

/// The directives with a time for which a cache may use a response.
const TIMES: [&[u8]; 4] = [b"max-age=", b"s-maxage=", b"stale-while-revalidate=", b"stale-if-error="];

/// The beginning of the year 2000. An earlier `Expires` is of a response that is stale.
const LONG_PAST: u64 = 946_684_800;

impl<V> Action<V> {
    /// Converts the values.
    pub fn map<W>(&self, value: impl Fn(&V) -> W) -> Action<W> {
        match self {
            Self::Set(values) => Action::Set(values.iter().map(value).collect()),
            Self::Add(values) => Action::Add(values.iter().map(value).collect()),
            Self::Default(only) => Action::Default(value(only)),
            Self::Replace { text, with } => Action::Replace { text: value(text), with: value(with) },
            Self::Remove => Action::Remove,
        }
    }

    /// `None` if a value becomes none.
    pub fn try_map<W>(&self, value: impl Fn(&V) -> Option<W>) -> Option<Action<W>> {
        Some(match self {
            Self::Set(values) => Action::Set(values.iter().map(value).collect::<Option<_>>()?),
            Self::Add(values) => Action::Add(values.iter().map(value).collect::<Option<_>>()?),
            Self::Default(only) => Action::Default(value(only)?),
            Self::Replace { text, with } => Action::Replace { text: value(text)?, with: value(with)? },
            Self::Remove => Action::Remove,
        })
    }

    /// Returns the values.
    pub fn values(&self) -> Vec<&V> {
        match self {
            Self::Set(values) | Self::Add(values) => values.iter().collect(),
            Self::Default(only) => vec![only],
            Self::Replace { text, with } => vec![text, with],
            Self::Remove => Vec::new(),
        }
    }
}

impl FieldChanges {
    /// Returns these changes after those of `earlier`, which they replace for each field that they set or remove.
    #[must_use]
    pub fn after(&self, earlier: &Self) -> Self {
        let is_replaced = |change: &&FieldChange| {
            let extends = |action: &_| matches!(action, Action::Add(_) | Action::Replace { .. });
            self.0.iter().any(|own| own.name == change.name && !extends(&own.action))
        };
        let kept = earlier.0.iter().filter(|change| !is_replaced(change));
        Self(kept.chain(&self.0).cloned().collect())
    }

    /// Whether nothing is changed.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// A value: a text without control characters, with placeholders.
#[derive(Debug, Clone)]
struct FieldText(Template);

impl Setting for FieldText {
    const SHAPE: Shape = String::SHAPE;

    fn read(value: &Value<'_>) -> Result<Self, Invalid> {
        let template = Template::parse(value.text()?);
        let template = template.or_else(|(title, expected)| value.invalid(two_lines(title, expected)))?;
        let is_valid = |piece: &Piece| match piece {
            Piece::Literal(text) => HeaderValue::from_str(text).is_ok(),
            _ => true,
        };
        if template.pieces().iter().all(is_valid) {
            return Ok(Self(template));
        }
        value.invalid("a field value cannot contain line feeds or control characters")
    }
}

/// A change that is not only a value.
#[derive(Table)]
struct ChangeTable {
    /// The value, or the values.
    set: Option<OneOrMany<FieldText>>,
    /// Lines to add.
    add: Option<OneOrMany<FieldText>>,
    /// The value of a field that is missing.
    default: Option<FieldText>,
    /// A text to replace by `with`, wherever it is in the lines.
    replace: Option<FieldText>,
    /// What takes its place.
    with: Option<FieldText>,
    /// Whether errors and redirects have the field, too, if its value lets caches store them, such as `max-age=3600`.
    #[setting(default)]
    always: bool,
}

/// A change as it is written.
#[derive(Debug, Clone)]
struct Written {
    action: Action<Template>,
    always: bool,
}

impl ChangeTable {
    /// The change. The error is what is wrong with the table, and what is expected.
    fn action(self) -> Result<Action<Template>, String> {
        let expected = "expected one of { set = \"...\" }, { add = \"...\" }, { default = \"...\" } and { replace = \"...\", with = \"...\" }";
        let missing = |key| {
            let example = "expected both, as in { replace = \"https://public/\", with = \"http://app/\" }";
            Err(two_lines(format!("`{key}` is missing"), example))
        };
        if let (Some(set), None, None, None, None) =
            (&self.set, &self.add, &self.default, &self.replace, &self.with)
        {
            return Ok(Action::Set(templates(set)));
        }
        match (self.add, self.default, self.replace, self.with) {
            _ if self.set.is_some() => Err(two_lines("two changes to a field", expected)),
            (Some(add), None, None, None) => Ok(Action::Add(templates(&add))),
            (None, Some(FieldText(value)), None, None) => Ok(Action::Default(value)),
            (None, None, Some(FieldText(text)), Some(_)) if text.as_fixed().is_some_and(str::is_empty) => {
                Err("the text to replace is empty".to_owned())
            }
            (None, None, Some(FieldText(text)), Some(FieldText(with))) => Ok(Action::Replace { text, with }),
            (None, None, Some(_), None) => missing("with"),
            (None, None, None, Some(_)) => missing("replace"),
            (None, None, None, None) => Err(two_lines("unknown change to a field", expected)),
            _ => Err(two_lines("two changes to a field", expected)),
        }
    }
}

fn templates(values: &OneOrMany<FieldText>) -> Vec<Template> {
    values.as_slice().iter().map(|value| value.0.clone()).collect()
}

impl Setting for Written {
    const SHAPE: Shape = Shape::Either(&[&<OneOrMany<FieldText>>::SHAPE, &Shape::False, &ChangeTable::SHAPE]);

    fn read(value: &Value<'_>) -> Result<Self, Invalid> {
        let plain = |action| Self { action, always: false };
        match value.boolean() {
            Some(false) => Ok(plain(Action::Remove)),
            Some(true) => value
                .invalid(two_lines("`true` is not a value", "expected a text, or `false` to remove the field")),
            None if value.is_table() => {
                let table = value.table::<ChangeTable>()?;
                let always = table.always;
                let action = table.action().or_else(|lines| value.invalid(lines))?;
                Ok(Self { action, always })
            }
            None if value.may_be::<OneOrMany<FieldText>>() => {
                <OneOrMany<FieldText>>::read(value).map(|values| plain(Action::Set(templates(&values))))
            }
            None => value.expected(
                "a value, a list of values, false, { add = ... }, { default = ... } or { replace = ..., with = ... }",
            ),
        }
    }
}

impl Setting for FieldChanges {
    const SHAPE: Shape = Shape::Map(&Written::SHAPE, None);

    fn read(value: &Value<'_>) -> Result<Self, Invalid> {
        let changes = field_table(value)?.into_iter();
        let change =
            |(FieldName(key, name), Written { action, always })| FieldChange { key, name, action, always };
        Ok(Self(changes.map(change).collect()))
    }
}

/// Whether only the connection sets a field.
pub fn is_of_connection(name: &HeaderName) -> bool {
    CONNECTION_FIELDS.contains(name)
}

/// The fields that [`header`] frames messages and manages connections with. No setting can change them.
pub const CONNECTION_FIELDS: [HeaderName; 8] = [
    header::CONNECTION,
    header::CONTENT_LENGTH,
    header::DATE,
    header::TE,
    header::TRAILER,
    header::TRANSFER_ENCODING,
    header::UPGRADE,
    HeaderName::from_static("keep-alive"),
];

impl FieldChanges {
    /// Reports fields that no setting can change, and placeholders that the scope does not define.
    #[must_use]
    pub fn problems(&self, scope: Scope<'_>, location: &Location, of_request: bool) -> Vec<Problem> {
        let mut problems = Vec::new();
        for change in &self.0 {
            let location = location.key(&change.key);
            if let Some(why) = change.fault(of_request) {
                problems
                    .push(Problem::key(&location, format!("{} cannot be changed", change.key)).label(why));
            }
            if of_request && change.always {
                let problem = Problem::value(&location, "`always` is for responses");
                problems.push(problem.label("without effect on a request"));
            }
            for template in change.action.values() {
                if let Err((title, expected)) = template.check(scope) {
                    problems.push(Problem::value(&location, title).label(expected));
                }
            }
        }
        problems
    }
}

impl FieldChange {
    /// Why no setting can change the field.
    fn fault(&self, of_request: bool) -> Option<&'static str> {
        let of_request_only: &[HeaderName] = &[header::HOST, header::EXPECT];
        if is_of_connection(&self.name) {
            Some("the server sets it for each connection, or frames messages with it")
        } else if of_request && of_request_only.contains(&self.name) {
            Some("the server has selected the site and the form of the request with it")
        } else {
            None
        }
    }
}
