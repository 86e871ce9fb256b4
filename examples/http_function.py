"""Explain a model behind HTTP, here a server on this machine that counts words."""

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.request import urlopen

import sightline as sl


class Service(BaseHTTPRequestHandler):
    def do_POST(self):
        texts = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.send_response(200)
        self.end_headers()
        self.wfile.write(json.dumps([[0.1, 0.9] if "refund" in text else [0.8, 0.2] for text in texts]).encode())

    log_message = lambda *_: None  # noqa: E731


server = ThreadingHTTPServer(("127.0.0.1", 0), Service)
threading.Thread(target=server.serve_forever, daemon=True).start()
ask = lambda texts: json.load(urlopen(f"http://127.0.0.1:{server.server_port}", json.dumps(texts).encode()))  # noqa: E731
model = sl.load(ask, labels=["no", "yes"], batch_size=16, concurrency=4, cache="answers.sqlite", announce=print)
model.explain("Please send the refund to my account.", check=True).to_html("http_function.html")
