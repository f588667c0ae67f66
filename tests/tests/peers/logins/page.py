"""Logs in with the Chromium of the first argument at https://app.example.org, which is on the port of the second argument, and runs the
application on the port of the third one. What a user sees and what the application receives is asserted here."""

import base64
import hashlib
import json
import re
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

from playwright.sync_api import expect, sync_playwright

URL = "https://app.example.org"
DEEP = f"{URL}/reports/11?sort=a%26b&q=x%20y"
USER = "ann@example.org"
USERS = [f"remote-email: {USER}", f"remote-user: {USER}"]
ACCEPT = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"

SEND = """async ([target, method, headers]) => {
  const response = await fetch(target, { method, headers, body: method === 'POST' ? 'text' : undefined });
  return { status: response.status, text: await response.text() };
}"""
LISTEN = """() => new Promise((resolve) => {
  const socket = new WebSocket(`wss://${location.host}/socket`);
  socket.onmessage = (message) => resolve(message.data);
  socket.onerror = () => resolve('rejected');
})"""
SUBMIT = """() => {
  const form = document.createElement('form');
  form.method = 'post';
  form.action = '/orders?a=b';
  document.body.append(form);
  form.submit();
}"""


class Application(BaseHTTPRequestHandler):
    """Responds with what it has received, and over a WebSocket with the user."""

    protocol_version = "HTTP/1.1"
    received = []

    def do_GET(self):
        self.received.append(f"{self.command} {self.path}")
        if self.headers.get("Upgrade") == "websocket":
            key = hashlib.sha1(self.headers["Sec-WebSocket-Key"].encode() + ACCEPT).digest()
            self.send_response(101)
            self.send_header("Upgrade", "websocket")
            self.send_header("Connection", "Upgrade")
            self.send_header("Sec-WebSocket-Accept", base64.b64encode(key).decode())
            self.end_headers()
            user = self.headers.get("Remote-User", "nothing").encode()
            self.wfile.write(bytes([0x81, len(user)]) + user)
            self.close_connection = True
            return
        body = self.rfile.read(int(self.headers.get("Content-Length", 0))).decode()
        fields = [f"{name.lower()}: {value}" for name, value in self.headers.items()]
        users = sorted(field for field in fields if re.match("remote|x-auth", field.replace("_", "-")))
        text = json.dumps({"request": f"{self.command} {self.path}", "body": body, "users": users})
        self.send_response(200)
        self.send_header("Content-Type", "text/plain")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text.encode())

    do_POST = do_GET

    def log_message(self, *_):
        pass


def shown(page):
    """What the application has received for this page."""
    return json.loads(page.locator("body").inner_text())


def expect_login(page, target):
    """The login page, which leads back to this target."""
    expect(page.get_by_role("button", name="Sign in")).to_be_visible()
    assert page.locator("input[name=rd]").input_value() == target, page.content()


def log_in(page):
    page.get_by_role("button", name="Sign in").click()
    page.get_by_placeholder("sub").fill(USER)
    page.get_by_role("button", name="Authorize").click()


def check_rejected(page):
    """Without a session, scripts, forms and WebSockets do not reach the application either."""
    Application.received.clear()
    assert page.evaluate(SEND, ["/api", "POST", {}])["status"] == 401
    assert page.evaluate(SEND, ["/api", "GET", {"Remote-User": "root"}])["status"] == 401
    assert page.evaluate(LISTEN) == "rejected"
    with page.expect_navigation():
        page.evaluate(SUBMIT)
    expect_login(page, "/orders?a=b")
    assert not Application.received, Application.received


def check_allowed(page):
    """With a session, the application gets the user of the authorizer, and no other."""
    spoofed = {"Remote-User": "root", "remote_user": "root", "Remote-Email": "root"}
    for method, body in (("GET", ""), ("POST", "text")):
        response = page.evaluate(SEND, ["/api?a=b", method, spoofed])
        expected = {"request": f"{method} /api?a=b", "body": body, "users": USERS}
        assert json.loads(response["text"]) == expected, response
    assert page.evaluate(LISTEN) == USER


def check(context):
    page = context.new_page()
    page.goto(DEEP)
    expect_login(page, "/reports/11?sort=a%26b&q=x%20y")
    check_rejected(page)
    page.goto(DEEP)
    log_in(page)
    page.wait_for_url(DEEP)
    assert shown(page)["users"] == USERS, shown(page)
    check_allowed(page)
    # The time of the session is another one, so oauth2-proxy has not made it.
    [session] = [cookie for cookie in context.cookies() if cookie["name"] == "_oauth2_proxy"]
    context.add_cookies([session | {"value": session["value"].replace("|1", "|0")}])
    page.goto(DEEP)
    expect_login(page, "/reports/11?sort=a%26b&q=x%20y")
    assert not any(cookie["name"] == "_oauth2_proxy" for cookie in context.cookies())
    check_rejected(page)
    context.add_cookies([session])
    page.goto(DEEP)
    check_allowed(page)
    page.goto(f"{URL}/oauth2/sign_out?rd=/bye")
    expect_login(page, "/bye")
    check_rejected(page)


if __name__ == "__main__":
    chromium, port, of_application = sys.argv[1:]
    application = ThreadingHTTPServer(("127.0.0.1", int(of_application)), Application)
    Thread(target=application.serve_forever, daemon=True).start()
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=chromium,
            args=["--no-sandbox", f"--host-resolver-rules=MAP *.example.org:443 127.0.0.1:{port}"],
        )
        check(browser.new_context(ignore_https_errors=True))
        browser.close()
