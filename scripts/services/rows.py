"""A JSON service of Python's library alone: each request parses, groups and writes a document."""

import http.server
import json
import random
import sys
import urllib.parse
import zlib

kept = []


def answer(number):
    numbers = random.Random(number)
    document = json.dumps([
        {"user": f"user-{numbers.randrange(500)}", "amount": numbers.random(), "lines": [
            {"article": numbers.randrange(9999), "note": "n" * numbers.randrange(400)}
            for _ in range(4)
        ]}
        for _ in range(4000)
    ])
    users = {}
    for order in json.loads(document):
        users.setdefault(order["user"], []).append(order)
    kept.append(users[min(users)])
    return b"%x" % zlib.crc32(json.dumps(users, sort_keys=True).encode())


class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        query = urllib.parse.parse_qs(urllib.parse.urlsplit(self.path).query)
        body = answer(int(query["n"][0]))
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


http.server.ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
