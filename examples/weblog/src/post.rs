//! A post: a Markdown file with its title, date and tags in front.

use std::path::Path;

use jiff::civil::Date;
use minijinja::HtmlEscape;
use pulldown_cmark::{CowStr, Event, Options, Parser, Tag, TagEnd, html};
use serde::{Deserialize, Serialize};

/// The line before and after the front matter.
const FENCE: &str = "+++\n";

/// A post.
#[derive(Debug, Serialize)]
pub(crate) struct Post {
    /// The name of its file without `.md`, which is its name in the URL.
    pub(crate) slug: String,
    pub(crate) title: String,
    /// `2026-11-25`.
    pub(crate) date: String,
    pub(crate) tags: Vec<String>,
    /// The first paragraph, without markup, unless the front matter has another one.
    pub(crate) summary: String,
    pub(crate) html: String,
    /// Whether only the preview shows it.
    pub(crate) draft: bool,
    /// Title and text in lower case, for the search.
    #[serde(skip)]
    pub(crate) words: String,
}

/// What is in front of the text, in TOML.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FrontMatter {
    title: String,
    date: toml::value::Datetime,
    #[serde(default)]
    tags: Vec<String>,
    summary: Option<String>,
    #[serde(default)]
    draft: bool,
}

impl Post {
    /// Parses the text of a file. `folder` has the images. The error is a message for the author.
    pub(crate) fn parse(slug: &str, text: &str, folder: &Path) -> Result<Self, String> {
        let text = text.replace("\r\n", "\n");
        let (front, markdown) = text
            .strip_prefix(FENCE)
            .and_then(|rest| rest.split_once(&format!("\n{FENCE}")))
            .ok_or("the file does not begin with its title and date between two lines of +++")?;
        // With the line of the fence, errors name lines of the file.
        let front = toml::from_str(&format!("\n{front}")).map_err(|error| error.to_string());
        let front: FrontMatter = front?;
        if let Some(tag) = front.tags.iter().find(|tag| !is_tag(tag)) {
            return Err(format!("{tag:?} is no tag: use letters, digits, - and _"));
        }
        let date = front.date.to_string();
        let date = date.get(..10).filter(|date| date.parse::<Date>().is_ok());
        let date = date.ok_or_else(|| format!("{} is no date: write date = 2026-11-25", front.date))?;
        let events = with_image_sizes(
            Parser::new_ext(markdown, Options::ENABLE_TABLES | Options::ENABLE_FOOTNOTES),
            folder,
        );
        let plain = plain_text(&events);
        let mut rendered = String::new();
        html::push_html(&mut rendered, events.into_iter());
        let first = plain.lines().find(|line| !line.trim().is_empty()).unwrap_or_default();
        Ok(Self {
            slug: slug.to_owned(),
            words: format!("{}\n{plain}", front.title).to_lowercase(),
            summary: front.summary.unwrap_or_else(|| first.to_owned()),
            title: front.title,
            date: date.to_owned(),
            tags: front.tags,
            html: rendered,
            draft: front.draft,
        })
    }
}

/// Whether a tag needs no escapes in a URL.
fn is_tag(tag: &str) -> bool {
    !tag.is_empty() && tag.chars().all(|c| c.is_alphanumeric() || matches!(c, '-' | '_'))
}

/// Replaces images by elements with their sizes, so that the text does not move when they arrive.
fn with_image_sizes<'a>(events: impl Iterator<Item = Event<'a>>, folder: &Path) -> Vec<Event<'a>> {
    let mut image: Option<(CowStr<'a>, String)> = None;
    let mut result = Vec::new();
    for event in events {
        match (event, &mut image) {
            (Event::Start(Tag::Image { dest_url, .. }), None) => image = Some((dest_url, String::new())),
            (Event::End(TagEnd::Image), Some(_)) => {
                if let Some((url, alt)) = image.take() {
                    result.push(Event::InlineHtml(element(&url, &alt, folder).into()));
                }
            }
            (Event::Text(text) | Event::Code(text), Some((_, alt))) => alt.push_str(&text),
            (_, Some(_)) => {}
            (event, None) => result.push(event),
        }
    }
    result
}

/// The element of an image. One that is not in the folder `images` beside the posts has no size.
fn element(url: &str, alt: &str, folder: &Path) -> String {
    // Editors look for `../images/a.png`, from the folder of the post.
    let url = url.strip_prefix("..").filter(|path| path.starts_with("/images/")).unwrap_or(url);
    let file = url.strip_prefix("/images/").filter(|name| !name.contains(".."));
    let size = file.and_then(|name| imagesize::size(folder.with_file_name("images").join(name)).ok());
    let size = size.map(|size| format!(" width=\"{}\" height=\"{}\"", size.width, size.height));
    let url = HtmlEscape(url).to_string().replace("&#x2f;", "/");
    let (alt, size) = (HtmlEscape(alt), size.unwrap_or_default());
    format!("<img src=\"{url}\" alt=\"{alt}\"{size} loading=\"lazy\">")
}

/// The text without markup, a line for each block.
fn plain_text(events: &[Event<'_>]) -> String {
    let mut plain = String::new();
    for event in events {
        match event {
            Event::Text(text) | Event::Code(text) => plain.push_str(text),
            Event::SoftBreak => plain.push(' '),
            Event::End(TagEnd::Paragraph | TagEnd::Heading(_) | TagEnd::Item | TagEnd::TableRow)
            | Event::HardBreak => plain.push('\n'),
            _ => {}
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Post, String> {
        Post::parse("a-post", text, Path::new("/nowhere"))
    }

    #[test]
    fn reads_front_matter_and_text() {
        let text = "+++\r\ntitle = \"On *time*\"\r\ndate = 2026-11-25\r\ntags = [\"clocks\"]\r\n+++\r\nFirst *line*\r\ngoes on.\r\n\r\nSecond.\r\n";
        let post = parse(text).unwrap();
        assert_eq!((post.title.as_str(), post.summary.as_str()), ("On *time*", "First line goes on."));
        assert_eq!((post.date.as_str(), &post.tags[..]), ("2026-11-25", &["clocks".to_owned()][..]));
        assert_eq!(post.html, "<p>First <em>line</em>\ngoes on.</p>\n<p>Second.</p>\n");
        assert!(post.words.contains("second") && !post.draft);
    }

    #[test]
    fn says_what_is_wrong() {
        for (text, expected) in [
            ("Hello", "does not begin with its title"),
            ("+++\ntitle = \"a\"\n+++\n", "missing field `date`"),
            ("+++\ntitle = \"a\n+++\n", "line 2"),
            ("+++\ntitle = \"a\"\ndate = 07:32:00\n+++\n", "is no date"),
            ("+++\ntitle = \"a\"\ndate = 2026-11-25\ntags = [\"a b\"]\n+++\n", "\"a b\" is no tag"),
            ("+++\ntitle = \"a\"\ndate = 2026-11-25\nslug = \"b\"\n+++\n", "unknown field `slug`"),
        ] {
            let error = parse(text).unwrap_err();
            assert!(error.contains(expected), "{error}");
        }
    }

    #[test]
    fn images_have_sizes_and_alternative_texts() {
        let site = tempfile::tempdir().unwrap();
        std::fs::create_dir(site.path().join("images")).unwrap();
        std::fs::write(site.path().join("images/dot.gif"), b"GIF89a\x03\0\x02\0\0\0\0;").unwrap();
        std::fs::write(site.path().join("dot.gif"), b"GIF89a\x03\0\x02\0\0\0\0;").unwrap();
        let html = |url| {
            let text = format!("+++\ntitle = \"a\"\ndate = 2026-11-25\n+++\n![A \"dot\"]({url})\n");
            Post::parse("a", &text, &site.path().join("posts")).unwrap().html
        };
        let with_size = "<p><img src=\"/images/dot.gif\" alt=\"A &quot;dot&quot;\" width=\"3\" height=\"2\" loading=\"lazy\"></p>\n";
        assert_eq!([html("/images/dot.gif"), html("../images/dot.gif")], [with_size, with_size]);
        for url in ["/images/none.gif", "/images/../dot.gif", "https://a.example/dot.gif"] {
            assert!(!html(url).contains("width"), "{url}");
        }
    }
}
