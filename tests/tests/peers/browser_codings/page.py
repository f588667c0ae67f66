"""Opens a page in the Chromium of the first argument, once for each coding below the URL of the second one, and prints what scripts
of the page got as JSON."""

import json
import sys

from playwright.sync_api import sync_playwright

chromium, url, *codings = sys.argv[1:]

FETCH = """async () => {
    const response = await fetch("text");
    const text = await response.text();
    const waiting = [];
    const source = new EventSource("events");
    source.onmessage = event => waiting.shift()(event.data);
    const events = [];
    for (let number = 0; number < 5; number++) {
        // The next event is sent only after this request.
        const event = new Promise((resolve, reject) => {
            waiting.push(resolve);
            setTimeout(() => reject(new Error("no event")), 60000);
        });
        await fetch("next", { method: "POST" });
        events.push(await event);
    }
    source.close();
    const page = performance.getEntriesByType("navigation")[0];
    return { text, events, coding: response.headers.get("content-encoding"), sent: page.encodedBodySize, decoded: page.decodedBodySize };
}"""


def look(page, coding):
    response = page.goto(f"{url}{coding}/")
    found = page.evaluate(FETCH)
    found["codings"] = [response.header_value("content-encoding"), found.pop("coding")]
    return found


with sync_playwright() as playwright:
    browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
    page = browser.new_context(ignore_https_errors=True).new_page()
    print(json.dumps([look(page, coding) for coding in codings]))
    browser.close()
