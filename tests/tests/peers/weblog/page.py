"""Reads the weblog in the Chromium of the first argument, comments on a post, and approves the comment as its author. The second
argument is the URL, the third the script of axe-core, the fourth a folder for pictures. Prints what it found as JSON. What a person
sees and does is asserted here."""

import json
import sys

from playwright.sync_api import expect, sync_playwright

chromium, url, axe, folder = sys.argv[1:]
axe = open(axe, encoding="utf-8").read()
AUTHOR = {"username": "author", "password": "change-me"}


class Reader:
    """A person with a browser of this width and colour scheme."""

    def __init__(self, browser, width, scheme, credentials=None):
        viewport = {"width": width, "height": 900}
        context = browser.new_context(viewport=viewport, color_scheme=scheme, http_credentials=credentials)
        self.name, self.page, self.errors = f"{width}-{scheme}", context.new_page(), []
        self.page.on("console", lambda message: self.errors.append(message.text) if message.type == "error" else None)
        self.page.on("pageerror", lambda error: self.errors.append(str(error)))

    def look(self, what):
        """Checks the current page."""
        self.page.screenshot(path=f"{folder}/weblog-{what}-{self.name}.png")
        self.page.evaluate(axe)
        violations = self.page.evaluate(
            "axe.run().then(result => result.violations.map(each => [each.id, each.nodes[0].html, each.nodes[0].failureSummary]))"
        )
        overflow = self.page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
        errors, self.errors = self.errors, []
        return {"page": f"{what} {self.name}", "errors": errors, "violations": violations, "overflow": overflow}

    def press(self, key, times=1):
        for _ in range(times):
            self.page.keyboard.press(key)


def read(reader):
    """Follows the links of a reader."""
    page = reader.page
    page.goto(url)
    expect(page.locator("article")).to_have_count(7)
    yield reader.look("first")
    # By the keyboard alone: the first stop leads to the text, and the next one after it is the title of a post.
    reader.press("Tab")
    expect(page.locator(":focus")).to_have_text("Skip to the text")
    reader.press("Enter")
    reader.press("Tab")
    expect(page.locator(":focus")).to_have_text("Forms without tokens")
    reader.press("Enter")
    expect(page.locator("h1")).to_have_text("Forms without tokens")
    page.goto(url)
    page.get_by_role("link", name="Older").click()
    expect(page.locator("article")).to_have_count(2)
    yield reader.look("second")
    page.locator("aside").get_by_role("link", name="state").click()
    expect(page.locator("h1")).to_have_text("state")
    yield reader.look("tag")
    page.get_by_role("link", name="One process, many tasks").click()
    expect(page.locator("main img")).to_have_js_property("naturalWidth", 1280)
    yield reader.look("post")
    page.get_by_role("searchbox").fill("clocks & <b>")
    page.get_by_role("searchbox").press("Enter")
    expect(page.locator("main")).to_contain_text("0 posts contain all words of “clocks & <b>”.")
    yield reader.look("search")


def comment(reader, author):
    """Sends a comment by the keyboard, and approves it."""
    text = f"I read this as {reader.name}.\n<script>alert(1)</script>"
    reader.page.goto(f"{url}/posts/one-process")
    reader.page.get_by_label("Your name").focus()
    reader.page.keyboard.type("Ann & <i>Bob</i>")
    reader.press("Tab")
    reader.page.keyboard.type(text)
    reader.press("Tab")
    reader.press("Enter")
    expect(reader.page.locator("h1")).to_have_text("Thank you")
    yield reader.look("thanks")
    author.page.goto(f"{url}/admin")
    expect(author.page.locator("main")).to_contain_text(text.splitlines()[0])
    yield author.look("admin")
    author.page.get_by_role("button", name="Approve").click()
    expect(author.page.get_by_role("heading", name="Recent comments")).to_be_visible()
    reader.page.get_by_role("link", name="Back to").click()
    expect(reader.page.locator(".comment .text").last).to_have_text(text)


def first_paint(reader):
    """Milliseconds from the click to the first content, without anything in the cache of the browser."""
    reader.page.context.new_cdp_session(reader.page).send("Network.clearBrowserCache")
    reader.page.goto(url)
    reader.page.wait_for_function("performance.getEntriesByName('first-contentful-paint').length > 0")
    return reader.page.evaluate("performance.getEntriesByName('first-contentful-paint')[0].startTime")


with sync_playwright() as playwright:
    browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
    looks = []
    for width in (390, 1280):
        for scheme in ("light", "dark"):
            reader, author = Reader(browser, width, scheme), Reader(browser, width, scheme, AUTHOR)
            looks += [*read(reader), *comment(reader, author)]
            reader.page.context.close()
            author.page.context.close()
    paint = [first_paint(Reader(browser, 1280, "light")) for _ in range(5)]
    last = Reader(browser, 1280, "light")
    last.page.goto(url)
    resources = "performance.getEntriesByType('resource')"
    blocking = last.page.evaluate(f"{resources}.filter(each => each.renderBlockingStatus === 'blocking').length")
    print(json.dumps({"looks": looks, "first_paint_ms": paint, "blocking": blocking}))
    browser.close()
