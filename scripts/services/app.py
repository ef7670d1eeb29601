"""A service under gunicorn: a request makes 12,000 strings, keeps eight, and writes all as JSON."""

import json
import os
import random
import urllib.parse
import zlib

kept = []
# What a service loads before it forks its workers (gunicorn --preload).
loaded = [bytes(1000) for _ in range(int(os.environ.get("LOADED_MIB", "0")) * 1048)]


def app(environ, start_response):
    query = urllib.parse.parse_qs(environ["QUERY_STRING"])
    numbers = random.Random(int(query["n"][0]))
    rows = [chr(97 + row % 26) * numbers.randrange(600, 3200) for row in range(12_000)]
    kept.extend(rows[::1500])
    body = b"%x" % zlib.crc32(json.dumps(rows).encode())
    start_response("200 OK", [("Content-Length", str(len(body)))])
    return [body]
