"""Requests of libcurl with ngtcp2, as the package curl_cffi has it. The arguments are the port and the file of the authority."""

import sys

from curl_cffi import CurlHttpVersion, requests

url, authority = f"https://localhost:{sys.argv[1]}", sys.argv[2]
with requests.Session(http_version=CurlHttpVersion.V3ONLY, verify=authority) as session:

    def request(method, path, **options):
        response = session.request(method, url + path, **options)
        assert response.http_version == CurlHttpVersion.V3, response.http_version
        return response.status_code, response.content

    assert request("GET", "/hello") == (200, b"hello")
    assert request("GET", "/large") == (200, b"x" * 300_000)
    assert request("GET", "/large", headers={"Range": "bytes=5-9"}) == (206, b"xxxxx")
    assert request("HEAD", "/hello") == (200, b"")
    assert request("GET", "/missing")[0] == 404
    assert request("POST", "/up", data=b"y" * 1_000_000) == (200, b"1000000")
