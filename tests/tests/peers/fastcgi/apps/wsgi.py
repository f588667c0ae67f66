"""The application of uwsgi.rs: over SCGI with flup, if it is started with a socket, or in uWSGI."""

import json
import sys


def application(environ, start_response):
    path = environ.get("PATH_INFO", "")
    if path == "/env":
        names = ("REQUEST_METHOD", "SCRIPT_NAME", "PATH_INFO", "QUERY_STRING", "REQUEST_URI", "SERVER_PROTOCOL",
                 "CONTENT_LENGTH", "CONTENT_TYPE", "HTTP_X_A", "HTTP_HOST", "REMOTE_ADDR", "APP_ENV")
        body = json.dumps({name: environ[name] for name in names if name in environ}).encode()
        start_response("200 OK", [("Content-Type", "application/json"), ("Content-Length", str(len(body)))])
        return [body]
    if path == "/echo":
        body = environ["wsgi.input"].read(int(environ["CONTENT_LENGTH"] or 0))
        start_response("200 OK", [("Content-Type", "text/plain"), ("X-Length", str(len(body)))])
        return [body]
    if path == "/large":
        start_response("200 OK", [("Content-Type", "text/plain"), ("Content-Length", "3000000")])
        return (b"x" * 10000 for _ in range(300))
    if path == "/short":
        start_response("200 OK", [("Content-Type", "text/plain"), ("Content-Length", "3000")])
        return [b"x" * 1000]
    if path == "/empty":
        start_response("204 No Content", [])
        return []
    start_response("418 I'm a teapot", [("Content-Type", "text/plain"), ("Set-Cookie", "a=1"), ("Set-Cookie", "b=2")])
    return [b"short and stout"]


if __name__ == "__main__":
    from flup.server.scgi import WSGIServer
    WSGIServer(application, bindAddress=sys.argv[1], umask=0).run()
