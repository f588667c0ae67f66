"""Opens the dashboard in the Chromium of the first argument; the second one is the URL, the third the script of axe-core, the
fourth a folder for pictures. Prints what it found as JSON, for each width and colour scheme."""

import json
import sys

from playwright.sync_api import sync_playwright

chromium, url, axe, folder = sys.argv[1:]


def look(browser, width, scheme):
    context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)
    page = context.new_page()
    errors = []
    page.on("console", lambda message: errors.append(message.text) if message.type == "error" else None)
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.goto(url)
    page.wait_for_selector("#charts svg")
    page.wait_for_function("document.querySelectorAll('#charts svg').length >= 5")
    page.wait_for_selector("#active td")
    page.wait_for_function("document.getElementById('news').textContent !== ''")
    page.evaluate(open(axe, encoding="utf-8").read())
    violations = page.evaluate("axe.run().then(result => result.violations.map(each => [each.id, each.nodes[0].html]))")
    overflow = page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
    page.screenshot(path=f"{folder}/dashboard-{width}-{scheme}.png")
    # By the keyboard alone: the first stop is the button, then the table.
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    paused = page.inner_text("#state")
    page.keyboard.press("Tab")
    focused = page.evaluate("document.activeElement.id")
    context.close()
    return {
        "width": width,
        "scheme": scheme,
        "errors": errors,
        "violations": violations,
        "overflow": overflow,
        "paused": paused,
        "focused": focused,
    }


with sync_playwright() as playwright:
    browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
    print(json.dumps([look(browser, width, scheme) for width in (390, 1280) for scheme in ("light", "dark")]))
    browser.close()
