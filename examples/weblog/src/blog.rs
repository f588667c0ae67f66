//! All posts, by time, tag and month.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;

use serde::Serialize;

use crate::post::Post;

/// Posts on a page.
pub(crate) const PAGE: usize = 7;

/// The posts of a folder at one time.
#[derive(Debug, Default)]
pub(crate) struct Blog {
    /// With drafts, the newest first.
    posts: Vec<Arc<Post>>,
    /// The files that could not be read as posts.
    pub(crate) problems: Vec<Problem>,
}

/// A file of which the author must know something.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Problem {
    pub(crate) file: String,
    pub(crate) message: String,
}

/// A tag or a month, and its number of posts.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Count {
    pub(crate) name: String,
    pub(crate) posts: usize,
}

/// A page of a list of posts.
#[derive(Debug, Serialize)]
pub(crate) struct Page<'a> {
    pub(crate) posts: Vec<&'a Post>,
    /// From 1.
    pub(crate) number: usize,
    pub(crate) pages: usize,
}

impl Blog {
    pub(crate) fn new(mut posts: Vec<Arc<Post>>, problems: Vec<Problem>) -> Self {
        posts.sort_by(|a, b| b.date.cmp(&a.date).then_with(|| a.slug.cmp(&b.slug)));
        Self { posts, problems }
    }

    /// All posts, with drafts.
    pub(crate) fn all(&self) -> &[Arc<Post>] {
        &self.posts
    }

    /// The posts that readers see.
    pub(crate) fn published(&self) -> impl Iterator<Item = &Post> {
        self.posts.iter().map(AsRef::as_ref).filter(|post| !post.draft)
    }

    pub(crate) fn post(&self, slug: &str) -> Option<&Arc<Post>> {
        self.posts.iter().find(|post| post.slug == slug)
    }

    /// A post that readers see.
    pub(crate) fn published_post(&self, slug: &str) -> Option<&Arc<Post>> {
        self.post(slug).filter(|post| !post.draft)
    }

    pub(crate) fn tagged(&self, tag: &str) -> impl Iterator<Item = &Post> {
        self.published().filter(move |post| post.tags.iter().any(|other| other == tag))
    }

    /// The posts of a month, such as `2026-11`.
    pub(crate) fn of_month(&self, month: &str) -> impl Iterator<Item = &Post> {
        self.published().filter(move |post| self::month(post) == month)
    }

    /// The posts that contain all words of a query.
    pub(crate) fn search(&self, query: &str) -> impl Iterator<Item = &Post> {
        let words: Vec<_> = query.to_lowercase().split_whitespace().map(str::to_owned).collect();
        self.published()
            .filter(move |post| !words.is_empty() && words.iter().all(|word| post.words.contains(word)))
    }

    /// All tags, the most frequent first.
    pub(crate) fn tags(&self) -> Vec<Count> {
        let mut tags = count(self.published().flat_map(|post| post.tags.iter().cloned()));
        tags.sort_by_key(|tag| Reverse(tag.posts));
        tags
    }

    /// All months with posts, the latest first.
    pub(crate) fn months(&self) -> Vec<Count> {
        let mut months = count(self.published().map(month));
        months.reverse();
        months
    }
}

/// A page of posts; `None` if there is no such page. The first one exists always.
pub(crate) fn page<'a>(posts: impl Iterator<Item = &'a Post>, number: usize) -> Option<Page<'a>> {
    let posts: Vec<_> = posts.collect();
    let pages = posts.len().div_ceil(PAGE).max(1);
    let from = number.checked_sub(1).filter(|_| number <= pages)? * PAGE;
    Some(Page { posts: posts.into_iter().skip(from).take(PAGE).collect(), number, pages })
}

fn month(post: &Post) -> String {
    post.date[..7].to_owned()
}

fn count(names: impl Iterator<Item = String>) -> Vec<Count> {
    let mut counts = BTreeMap::<String, usize>::new();
    for name in names {
        *counts.entry(name).or_default() += 1;
    }
    counts.into_iter().map(|(name, posts)| Count { name, posts }).collect()
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn blog(posts: usize) -> Blog {
        let posts = (1..=posts).map(|day| {
            let front = format!("title = \"Day {day}\"\ndate = 2026-11-{day:02}\ntags = [\"t{}\"]", day % 2);
            let draft = if day == 3 { "\ndraft = true" } else { "" };
            Post::parse(&format!("d{day}"), &format!("+++\n{front}{draft}\n+++\nText."), Path::new("."))
                .unwrap()
                .into()
        });
        Blog::new(posts.collect(), Vec::new())
    }

    #[test]
    fn a_page_has_seven_posts_the_newest_first_and_no_drafts() {
        let blog = blog(16);
        let slugs = |number| {
            page(blog.published(), number)
                .map(|page| page.posts.iter().map(|post| post.slug.clone()).collect())
        };
        let first: Vec<String> = slugs(1).unwrap();
        assert_eq!(first, ["d16", "d15", "d14", "d13", "d12", "d11", "d10"]);
        let last: Vec<String> = slugs(3).unwrap();
        assert_eq!(last, ["d1"]);
        assert!(slugs(0).is_none() && slugs(4).is_none());
        assert_eq!(page(Blog::default().published(), 1).unwrap().pages, 1);
    }

    #[test]
    fn finds_posts_by_tag_month_and_words() {
        let blog = blog(5);
        assert_eq!(
            blog.tags(),
            [Count { name: "t0".into(), posts: 2 }, Count { name: "t1".into(), posts: 2 }]
        );
        assert_eq!(blog.tagged("t1").count(), 2);
        assert_eq!(blog.of_month("2026-11").count(), 4);
        assert_eq!(blog.months(), [Count { name: "2026-11".into(), posts: 4 }]);
        assert_eq!(blog.search("TEXT day").count(), 4);
        assert_eq!(blog.search("5 day").next().unwrap().slug, "d5");
        assert_eq!(blog.search("  ").count(), 0);
    }
}
