"""Servers for tests: S3 and Azure that verify signatures, one that answers as Google says its own do, and nginx."""

from __future__ import annotations

import base64
import contextlib
import email.utils
import hashlib
import hmac
import http.client
import json
import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from random import SystemRandom
from typing import Any
from urllib.parse import urlsplit

import boto3
import pytest

from cfagg.arrays.index import lookup
from cfagg.demo import sample
from cfagg.storage import remote_file
from cfagg.storage.objects import ObjectStore
from tests.storage.remote.google import Google

#: What the environment may say about credentials and servers: tests say it themselves.
_SETTINGS = (
    "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_PROFILE", "AWS_DEFAULT_PROFILE",
    "AWS_REGION", "AWS_DEFAULT_REGION", "AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3",
)  # fmt: skip


@pytest.fixture(autouse=True)
def alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """No proxy stands between, no settings of the user count, and a look at a server holds on a slow machine too."""
    monkeypatch.setattr(remote_file, "_TRUST", 600.0)
    monkeypatch.setattr(lookup, "_TRUST", 600.0)
    monkeypatch.setenv("no_proxy", "127.0.0.1,localhost")
    for name in _SETTINGS:
        monkeypatch.delenv(name, raising=False)


def free_port() -> int:
    """Return a port of this machine that nobody uses, and that the system gives to nobody who asks for any port."""
    while True:
        with contextlib.suppress(OSError), socket.socket() as found:
            found.bind(("127.0.0.1", SystemRandom().randrange(10_000, 32_000)))
            return int(found.getsockname()[1])


@contextlib.contextmanager
def started(command: list[str], port: int, log: Path, environment: dict[str, str] | None = None) -> Iterator[None]:
    """Run a server until the block ends; it is ready when it takes connections."""
    with log.open("wb") as out:
        server = subprocess.Popen(command, stdout=out, stderr=out, env=os.environ | (environment or {}))
        try:
            until = time.monotonic() + 300
            while True:
                with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 60):
                    break
                if server.poll() is not None or time.monotonic() > until:
                    raise RuntimeError(f"{command[0]} did not start: {log.read_text()[-2000:]}")
                time.sleep(0.02)
            yield
        finally:
            server.terminate()
            server.wait(300)


@dataclass
class Bucket:
    """A bucket of an S3 server that verifies signatures, and the keys of a user who may read and write it."""

    name: str
    endpoint: str
    key: str
    secret: str
    client: Any

    @property
    def options(self) -> dict[str, str]:
        """What is given as storage_options."""
        return {"endpoint": self.endpoint, "access_key_id": self.key, "secret_access_key": self.secret}

    @property
    def environment(self) -> dict[str, str]:
        """The same, as the environment has it."""
        return {
            "AWS_ENDPOINT_URL": self.endpoint,
            "AWS_ACCESS_KEY_ID": self.key,
            "AWS_SECRET_ACCESS_KEY": self.secret,
        }

    def put(self, path: Path, prefix: str) -> str:
        """Store a file, or all files of a folder, and return the URL."""
        files = [path] if path.is_file() else [p for p in path.rglob("*") if p.is_file()]
        for file in files:
            key = f"{prefix}/{file.relative_to(path.parent)}"
            self.client.put_object(Bucket=self.name, Key=key, Body=file.read_bytes())
        return f"s3://{self.name}/{prefix}/{path.name}"

    def keys(self, prefix: str) -> list[str]:
        """Return all keys below a prefix."""
        found = self.client.list_objects_v2(Bucket=self.name, Prefix=prefix)
        return [each["Key"] for each in found.get("Contents", ())]


#: The server; for each request it lists its own directory and writes a line, which take longer than to answer.
_MOTO = """
import logging, sys, moto.backends
logging.getLogger("werkzeug").setLevel("ERROR")
names = tuple(moto.backends.list_of_moto_modules())
moto.backends.list_of_moto_modules = lambda: names
from moto.server import main
main(sys.argv[1:])
"""


@pytest.fixture(scope="session")
def _s3(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bucket]:
    port, folder = free_port(), tmp_path_factory.mktemp("s3")
    command = [sys.executable, "-c", _MOTO, "-H", "127.0.0.1", "-p", str(port)]
    # After these requests, which make a user, each is verified.
    with started(command, port, folder / "log", {"INITIAL_NO_AUTH_ACTION_COUNT": "3", "no_proxy": "127.0.0.1"}):
        url = f"http://127.0.0.1:{port}"

        def client(service: str, key: str, secret: str) -> Any:
            return boto3.client(
                service, endpoint_url=url, region_name="us-east-1", aws_access_key_id=key, aws_secret_access_key=secret
            )

        before = os.environ.get("no_proxy")
        os.environ["no_proxy"] = "127.0.0.1"
        try:
            iam = client("iam", "any", "any")
            iam.create_user(UserName="reader")
            made = iam.create_access_key(UserName="reader")["AccessKey"]
            rights = {"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Action": "s3:*", "Resource": "*"}]}
            iam.put_user_policy(UserName="reader", PolicyName="all", PolicyDocument=json.dumps(rights))
            key, secret = made["AccessKeyId"], made["SecretAccessKey"]
            s3 = client("s3", key, secret)
            s3.create_bucket(Bucket="archive")
            yield Bucket("archive", url, key, secret, s3)
        finally:
            if before is None:
                del os.environ["no_proxy"]
            else:
                os.environ["no_proxy"] = before


@pytest.fixture
def bucket(_s3: Bucket) -> Bucket:
    """A bucket that only signed requests read; its keys are given by each test."""
    return _s3


@pytest.fixture
def keyed(_s3: Bucket, monkeypatch: pytest.MonkeyPatch) -> Bucket:
    """The same bucket, with keys and server in the environment."""
    for name, value in _s3.environment.items():
        monkeypatch.setenv(name, value)
    return _s3


@pytest.fixture(scope="session")
def once() -> Callable[[str, Callable[[], Any]], Any]:
    """Make something once in a run, by its name."""
    made: dict[str, Any] = {}

    def get(name: str, make: Callable[[], Any]) -> Any:
        if name not in made:
            made[name] = make()
        return made[name]

    return get


@dataclass
class Container:
    """A container of an Azure server, and the keys of its account."""

    name: str
    options: dict[str, Any]


def azurite() -> str | None:
    """Return the program that serves blobs as Azure does, where it is installed."""
    found = os.environ.get("CFAGG_AZURITE") or shutil.which("azurite-blob")
    return found if found and Path(found).exists() else None


@pytest.fixture(scope="session")
def container(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Container]:
    """A container of an Azure server that verifies signatures."""
    program = azurite()
    if program is None:
        pytest.skip("azurite is not installed (npm install -g azurite; or CFAGG_AZURITE names its azurite-blob)")
    port, folder = free_port(), tmp_path_factory.mktemp("azure")
    key = base64.b64encode(os.urandom(32)).decode()
    command = [program, "--blobHost", "127.0.0.1", "--blobPort", str(port), "--silent",
               "--skipApiVersionCheck", "--disableTelemetry", "--inMemoryPersistence"]  # fmt: skip
    with started(command, port, folder / "log", {"AZURITE_ACCOUNTS": f"archive:{key}", "no_proxy": "127.0.0.1"}):
        endpoint = f"http://127.0.0.1:{port}/archive"
        _make_container(endpoint, "archive", key, "data")
        yield Container("data", {"account_name": "archive", "account_key": key, "endpoint": endpoint})


def _make_container(endpoint: str, account: str, key: str, name: str) -> None:
    """Make a container by one request, signed as the REST API of Azure says (Shared Key, version 2021-08-06)."""
    when = email.utils.formatdate(usegmt=True)
    signed = f"x-ms-date:{when}\nx-ms-version:2021-08-06\n/{account}/{account}/{name}\nrestype:container"
    text = "PUT\n" + "\n" * 11 + signed
    digest = hmac.new(base64.b64decode(key), text.encode(), hashlib.sha256).digest()
    parts = urlsplit(endpoint)
    connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=300)
    connection.request(
        "PUT",
        f"{parts.path}/{name}?restype=container",
        headers={
            "x-ms-date": when,
            "x-ms-version": "2021-08-06",
            "Content-Length": "0",
            "Authorization": f"SharedKey {account}:{base64.b64encode(digest).decode()}",
        },
    )
    answer = connection.getresponse()
    if answer.status != 201:
        raise RuntimeError(f"no container was made: {answer.status} {answer.read()[:500]!r}")
    connection.close()


def google_token() -> dict[str, str]:
    """Return what signs requests to the server below: a provider of credentials."""
    return {"token": "of one account"}


@pytest.fixture
def google() -> Iterator[Google]:
    """A server of ours that follows the documentation of Google's XML API: there is none of Google's to be had."""
    with Google(google_token()["token"]).serving() as server:
        yield server


@pytest.fixture(params=["s3", pytest.param("az", marks=pytest.mark.soak), pytest.param("gs", marks=pytest.mark.full)])
def cloud(request: pytest.FixtureRequest) -> tuple[str, dict[str, Any], ObjectStore]:
    """A place of an object store, what is given for it, and its objects."""
    options: dict[str, Any]
    if request.param == "s3":
        bucket = request.getfixturevalue("bucket")
        url, options = f"s3://{bucket.name}", bucket.options
    elif request.param == "az":
        container = request.getfixturevalue("container")
        url, options = f"az://{container.name}", container.options
    else:
        server = request.getfixturevalue("google")
        url, options = "gs://bucket", {**server.options, "credentials": google_token}
    url = f"{url}/{abs(hash(request.node.name))}.zarr"
    return url, options, ObjectStore(url, options)


CONFIGURATION = """
daemon off; master_process off; pid {folder}/pid; error_log {folder}/error.log;
events {{ worker_connections 64; }}
http {{
  access_log off; default_type application/octet-stream;
  client_body_temp_path {folder}/t1; proxy_temp_path {folder}/t2; fastcgi_temp_path {folder}/t3;
  uwsgi_temp_path {folder}/t4; scgi_temp_path {folder}/t5;
  server {{
    listen 127.0.0.1:{port}; root {folder}/data; error_page 503 /page.html;
    location /moved/ {{ rewrite ^/moved/(.*) /moved/../data/$1 permanent; }}
    location /inside/ {{ rewrite ^/inside/old/(.*) /inside/new/$1 redirect; }}
    location /away/ {{ return 302 http://127.0.0.1:{port}/$arg_x; }}
    location /busy/ {{ return 503; }}
    location /private/ {{ if ($http_authorization != "Bearer x") {{ return 401; }} }}
    location /whole/ {{ max_ranges 0; }}
    location /packed/ {{ gzip on; gzip_types *; gzip_min_length 1; }}
    location /slow/ {{ limit_rate 300k; }}
  }}
  server {{
    listen 127.0.0.1:{tls} ssl; root {folder}/data;
    ssl_certificate {folder}/own.pem; ssl_certificate_key {folder}/own.key;
  }}
}}
"""


@dataclass
class Nginx:
    """nginx, the folder that it serves, and its certificate."""

    url: str
    secure: str
    data: Path
    certificate: Path


@pytest.fixture(scope="session")
def _nginx(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Nginx]:
    program = shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin")
    if program is None or shutil.which("openssl") is None:
        pytest.skip("nginx or openssl is not installed")
    folder = tmp_path_factory.mktemp("nginx")
    port, tls = free_port(), free_port()
    for place in (".", "private", "whole", "packed", "slow", "inside/new", "data"):
        (folder / "data" / place).mkdir(parents=True, exist_ok=True)
        for name in ("test1.nc", "temperature.nca"):
            shutil.copy(Path(sample(name)), folder / "data" / place / name)
    (folder / "data" / "page.html").write_text("<html>" + "busy " * 30_000 + "</html>")
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2",
         "-keyout", folder / "own.key", "-out", folder / "own.pem", "-subj", "/CN=localhost",
         "-addext", "subjectAltName=DNS:localhost"],
        check=True, capture_output=True,
    )  # fmt: skip
    (folder / "nginx.conf").write_text(CONFIGURATION.format(folder=folder, port=port, tls=tls))
    with started([program, "-c", str(folder / "nginx.conf"), "-e", str(folder / "error.log")], port, folder / "log"):
        yield Nginx(f"http://127.0.0.1:{port}", f"https://localhost:{tls}", folder / "data", folder / "own.pem")


@pytest.fixture
def nginx(_nginx: Nginx, monkeypatch: pytest.MonkeyPatch) -> Nginx:
    """Nginx, with no waits between attempts."""
    from cfagg.storage import transport

    monkeypatch.setattr(transport.time, "sleep", lambda _: None)
    return _nginx


@pytest.fixture
def no_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    """What was uploaded a moment ago is not written again."""
    monkeypatch.setattr("cfagg.accumulation.source._COARSE_TICK", 0.0)
