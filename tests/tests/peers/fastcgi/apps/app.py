"""The test app in Python: WSGI over flup."""
import hashlib
import os
import sys
import time

from flup.server.fcgi import WSGIServer


def app(environ, start_response):
    what = environ.get("PATH_INFO", "/").split("/")[1]
    query = environ.get("QUERY_STRING", "")
    status = query if what == "status" else "200"
    headers = [("Content-Type", "text/plain")] if status == "200" else []
    start_response(status + " Done", headers)
    if what == "variables":
        for name, value in environ.items():
            if isinstance(value, str):
                yield f"{name}={value}\n".encode("latin-1")
    elif what == "upload":
        digest, count = hashlib.sha256(), 0
        while piece := environ["wsgi.input"].read(65536):
            digest.update(piece)
            count += len(piece)
        yield f"{count} {digest.hexdigest()}".encode()
    elif what == "lines":
        for n in (1, 2, 3):
            yield f"line {n}\n".encode()
            while not os.path.exists(f"{query}/{n}"):
                time.sleep(0.001)
    elif what == "complain":
        environ["wsgi.errors"].write(f"unknown reason: {query}\n")
        yield b"done"
    elif what == "pid":
        yield str(os.getpid()).encode()


WSGIServer(app, bindAddress=sys.argv[1]).run()
