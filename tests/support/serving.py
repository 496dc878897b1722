"""Exchange servers for tests: real ones, on a free port, on each data base."""

import asyncio
import json
import os
import secrets
import signal
import socket
import sqlite3
import subprocess
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, closing, contextmanager, suppress
from dataclasses import asdict, dataclass, field
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
import trustme
from starlette.routing import BaseRoute

from elmgrove import Basis, Evidence, HiddenLayer
from elmgrove.federation.audit import AuditRecord
from elmgrove.federation.charter import Charter, address_of
from elmgrove.federation.contribution import Contribution
from elmgrove.federation.merged import Merged
from elmgrove.server.app import bound, listen, make_app, serve
from elmgrove.server.limits import Limits
from elmgrove.server.problems import KINDS
from elmgrove.server.store.contributions import StoredEntry
from elmgrove.server.store.federations import DeviceRow, FederationRow
from elmgrove.server.store.store import Store, open_store
from support.factories import evidence_of, normal_rows
from support.faults import CONTEXT
from support.fork_server import Command, the_fork_server
from support.ports import free_port
from support.services import execute

ADMIN = "elm-admin-of-the-tests"
LAYER = HiddenLayer(inputs=6, units=3, activation="sigmoid", seed=3)
#: All that hold what was asked for; the audit tells of refusals as well.
TABLES = (
    *("elmgrove_schema", "federation", "device", "entry", "content", "administrator"),
    *("device_status", "report", "hour", "event", "command", "device_changes"),
    "session_number",
)
#: More than any test uses up, so that tests may ask as fast as they can.
AMPLE = Limits(rate_by_key=1e6, rate_by_address=1e6, head_deadline=600, answer_deadline=600)
#: By these, a device's key reads what each device contributed.
_names = count(1)


def charter(name: str | None = None, **more: Any) -> Charter:
    """A federation's; under a name that no other test has, unless one is given."""
    more.setdefault("merged", True)
    return Charter(name or f"fans-{next(_names)}", Basis(LAYER, LAYER.inputs), **more)


def fan_evidence(X: np.ndarray, layer: HiddenLayer = LAYER) -> Evidence:
    return evidence_of(X, Basis(layer, layer.inputs))


def seeded_contribution(
    origin: str, seed: int, number: int = 20, epoch: int | None = None
) -> Contribution:
    """The epoch is the number of rows, as for a device that lost nothing."""
    parts = (fan_evidence(normal_rows(seed, number)),)
    return Contribution(origin, number if epoch is None else epoch, parts)


def client(base: str, **more: Any) -> httpx.Client:
    # Without the certificates that no test needs, which take a while to load.
    return httpx.Client(base_url=base, timeout=60, verify=False, **more)


@dataclass
class Server:
    """A running server, and the data base behind it."""

    base: str
    store: str
    http: httpx.Client = field(init=False)

    def __post_init__(self) -> None:
        self.http = client(self.base)

    def ask(self, method: str, path: str, secret: str | None = None, **more: Any) -> httpx.Response:
        headers = dict(more.pop("headers", {}))
        if secret is not None:
            headers["Authorization"] = f"Bearer {secret}"
        return self.http.request(method, path, headers=headers, **more)

    def audit(self, federation: str = "", **query: str) -> list[AuditRecord]:
        """The newest records of a chain, which is whole."""
        asked = {"federation": federation, "limit": "1000"} | query
        answer = self.ask("GET", "/v1/audit", ADMIN, params=asked)
        assert answer.status_code == 200, answer.text
        return [AuditRecord.from_fields(stated) for stated in answer.json()["records"]]

    def administrator(self, name: str, role: str, **more: float) -> str:
        """The token of an administrator that is added."""
        asked = {"name": name, "role": role, **more}
        answer = self.ask("POST", "/v1/administrators", ADMIN, json=asked)
        assert answer.status_code == 201, answer.text
        return str(answer.json()["token"])

    def found(self, charter: Charter) -> "Federation":
        answer = self.ask("POST", "/v1/federations", ADMIN, json=charter.fields)
        assert answer.status_code == 201, answer.text
        return Federation(self, charter, answer.json()["token"])


@dataclass
class Federation:
    """A federation on a server, its token and the keys of its devices."""

    server: Server
    charter: Charter
    token: str
    keys: dict[str, str] = field(default_factory=dict)

    @property
    def path(self) -> str:
        return f"/v1/federations/{self.charter.name}"

    def ask(self, method: str, path: str, secret: str | None = None, **more: Any) -> httpx.Response:
        return self.server.ask(method, self.path + path, secret, **more)

    def enrol(self, *names: str) -> None:
        for name in names:
            answer = self.ask("POST", "/devices", self.token, json={"name": name})
            assert answer.status_code == 201, answer.text
            self.keys[name] = answer.json()["key"]

    def put(self, contribution: Contribution, key: str | None = None) -> httpx.Response:
        return self.put_blob(contribution.origin, contribution.to_bytes(), key)

    def put_blob(self, origin: str, blob: bytes, key: str | None = None) -> httpx.Response:
        where = f"/contributions/{address_of(origin)}"
        return self.ask("PUT", where, key or self.keys[origin], content=blob)

    def client(self, device: str) -> httpx.Client:
        """A connection of a device's own, for a thread of its own."""
        return client(self.server.base, headers={"Authorization": f"Bearer {self.keys[device]}"})

    def merged(self, device: str, **query: str) -> Merged:
        answer = self.ask("GET", "/merged", self.keys[device], params=query)
        assert answer.status_code == 200, answer.text
        return Merged.from_bytes(answer.content)

    def entries(self) -> dict[str, dict[str, Any]]:
        answer = self.ask("GET", "/entries", ADMIN)
        assert answer.status_code == 200, answer.text
        return {entry["origin"]: entry for entry in answer.json()["entries"]}

    def told(self, *acts: str) -> list[tuple[str, str]]:
        """Who did what, of these acts or of all, by the audit."""
        records = self.server.audit(self.charter.name)
        return [(one.actor, one.act) for one in records if not acts or one.act in acts]

    def at(self, server: Server) -> "Federation":
        """Gives this federation as it is on another server, or on its own after a restart."""
        return Federation(server, self.charter, self.token, self.keys)


@contextmanager
def serving(
    store: str,
    *,
    port: int = 0,
    limits: Limits = AMPLE,
    certificate: str | None = None,
    private_key: str | None = None,
    client_ca: str | None = None,
    admin_token: str = ADMIN,
    routes: Sequence[BaseRoute] = (),
    **options: Any,
) -> Iterator[Server]:
    """A server in a thread of this process, so that a warning in it fails the test.

    ``routes`` are those that it has for a test alone, ``options`` those of ``make_app``.
    """
    app = make_app(store, admin_token, limits=limits, **options)
    app.router.routes.extend(routes)
    given = (certificate, private_key, client_ca)
    files = [None if path is None else Path(path) for path in given]
    listening = bound("127.0.0.1", port, limits)
    base = f"http{'s' * bool(certificate)}://127.0.0.1:{listening.getsockname()[1]}"
    begun, ending, loop = threading.Event(), asyncio.Event(), asyncio.new_event_loop()

    def run() -> None:
        try:
            with asyncio.Runner(loop_factory=lambda: loop) as runner:
                tls = (files[0], files[1], files[2])
                runner.run(serve(app, listening, ending, limits, tls, lambda port: begun.set()))
        finally:
            begun.set()

    thread = threading.Thread(target=run)
    thread.start()
    try:
        begun.wait()
        made = Server(base, store)
        with made.http:
            yield made
    finally:
        with suppress(RuntimeError):  # it has ended already
            loop.call_soon_threadsafe(ending.set)
        thread.join()


@contextmanager
def process(
    store: str,
    *,
    port: int | None = None,
    log: Path | None = None,
    limits: Limits | None = None,
    files: tuple[int, int] | None = None,
    **more: Any,
) -> Iterator[Command]:
    """A server as a process of its own, ended like a service is; a test may kill it before.

    ``files`` are how many open ones it has at first, and how many it may have.
    """
    options = {"port": port or free_port(), **more}
    few = f"resource.setrlimit(resource.RLIMIT_NOFILE, {files});" if files else ""
    code = (
        f"import json, resource, sys; {few} from pathlib import Path;"
        "from elmgrove.server.app import Limits, listen;"
        "options, limits = map(json.loads, sys.argv[3:]);"
        "files = {'certificate', 'private_key', 'client_ca'} & options.keys();"
        "options |= {name: Path(options[name]) for name in files};"
        "listen(sys.argv[1], sys.argv[2], limits=Limits(**limits), **options)"
    )
    told = [json.dumps(options), json.dumps(asdict(limits or Limits()))]
    with (
        Path(os.devnull).open("wb") as out,
        os.fdopen(os.dup(2), "wb") if log is None else log.open("wb") as errors,
    ):
        words, here = [store, ADMIN, *told], Path.cwd()
        started = the_fork_server().begin(
            words, here, dict(os.environ), subprocess.DEVNULL, out, errors, code
        )
    try:
        yield started
    finally:
        started.send_signal(signal.SIGTERM)
        started.wait(180)


@contextmanager
def server_process(store: str, **options: Any) -> Iterator[tuple[Server, Command]]:
    """A server as a process of its own, once it answers."""
    port = options.setdefault("port", free_port())
    with process(store, **options) as running:
        wait_until(lambda: answers(port))
        server = Server(f"http://127.0.0.1:{port}", store)
        with server.http:
            yield server, running


@contextmanager
def killed_at_the_end(store: str, port: int) -> Iterator[None]:
    """A server as a process of its own that is killed, as a power cut would."""
    options = {"port": port}
    server = CONTEXT.Process(target=listen, args=(store, ADMIN), kwargs=options)
    server.start()
    try:
        wait_until(lambda: answers(port))
        yield
    finally:
        server.kill()
        server.join()


def answers(port: int) -> bool:
    """Whether something listens there."""
    with closing(socket.socket()) as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def wait_until(condition: Callable[[], bool], seconds: float = 180.0) -> None:
    end, pause = time.monotonic() + seconds, 0.002
    while not condition():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(pause)
        # What takes long is not asked for more often than somebody would notice.
        pause = min(1.5 * pause, 0.05)


def contents(store: str) -> dict[str, list[Any]]:
    """All that a data base holds, table by table."""
    if store.startswith("sqlite:///"):
        with closing(sqlite3.connect(store.removeprefix("sqlite:///"))) as connection:
            return {name: _sorted(connection.execute(f"SELECT * FROM {name}")) for name in TABLES}
    return asyncio.run(_contents_of_postgres(store))


async def _contents_of_postgres(store: str) -> dict[str, list[Any]]:
    import asyncpg  # an extra: only a machine with the service needs it

    connection = await asyncpg.connect(store)
    try:
        found = {name: await connection.fetch(f"SELECT * FROM {name}") for name in TABLES}
    finally:
        await connection.close()
    return {name: _sorted(map(tuple, lines)) for name, lines in found.items()}


def lose(store: str) -> None:
    """Leaves nothing of a data base, as a disk that is lost."""
    path, _, schema = store.partition("?search_path=")
    if schema:
        asyncio.run(execute(path, f"DROP SCHEMA {schema} CASCADE; CREATE SCHEMA {schema}"))
        return
    for left in Path(path.removeprefix("sqlite:///")).parent.glob("store.db*"):
        left.unlink()


def alter(store: str, federation: str, origin: str, change: Callable[[bytes], bytes]) -> None:
    """Changes the bytes that a data base holds of a device's contribution, behind its back."""
    select = """SELECT c.revision, c.blob FROM content c
        JOIN entry e ON e.federation = c.federation AND e.revision = c.revision
        WHERE e.superseded IS NULL AND e.federation = $1 AND e.origin = $2"""
    update = "UPDATE content SET blob = $3 WHERE federation = $1 AND revision = $2"
    if not store.startswith("sqlite:///"):
        asyncio.run(_alter_in_postgres(store, select, update, (federation, origin), change))
        return
    with closing(sqlite3.connect(store.removeprefix("sqlite:///"))) as connection, connection:
        ((revision, blob),) = connection.execute(select, {"1": federation, "2": origin})
        connection.execute(update, {"1": federation, "2": revision, "3": change(blob)})


async def _alter_in_postgres(
    store: str, select: str, update: str, which: tuple[str, str], change: Callable[[bytes], bytes]
) -> None:
    import asyncpg  # an extra: only a machine with the service needs it

    connection = await asyncpg.connect(store)
    try:
        ((revision, blob),) = await connection.fetch(select, *which)
        await connection.execute(update, which[0], revision, change(blob))
    finally:
        await connection.close()


async def done_behind(database: str, *statements: str) -> None:
    """Does something to a data base, behind the store's back."""
    if not database.startswith("sqlite:///"):
        await execute(database, "; ".join(statements))
        return
    with closing(sqlite3.connect(database.removeprefix("sqlite:///"))) as connection, connection:
        connection.executescript("; ".join(statements))


def flipped(blob: bytes) -> bytes:
    """With one bit of its last number changed."""
    return blob[:-3] + bytes([blob[-3] ^ 1]) + blob[-2:]


def _sorted(lines: Any) -> list[Any]:
    return sorted(map(tuple, lines), key=repr)


def central(parts: Sequence[np.ndarray]) -> Evidence:
    """What one device would say that had learned the rows of all."""
    return fan_evidence(np.vstack(parts)) if parts else Evidence.zero(charter("none").basis)


def empty_database(request: pytest.FixtureRequest, folder: Path, kind: str) -> str:
    if kind == "sqlite":
        return f"sqlite:///{folder}/store.db"
    server, schema = request.getfixturevalue("postgres"), f"test_{secrets.token_hex(4)}"
    asyncio.run(execute(server, f"CREATE SCHEMA {schema}"))
    return f"{server}?search_path={schema}"


@pytest.fixture(name="database", params=["sqlite", "postgres"])
def database_fixture(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """An empty one for a test of its own."""
    return empty_database(request, tmp_path, request.param)


@pytest.fixture(name="server", scope="module", params=["sqlite", "postgres"])
def server_fixture(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Server]:
    """One for all tests of a module: each founds a federation of its own."""
    folder = tmp_path_factory.mktemp("server")
    with serving(empty_database(request, folder, request.param)) as running:
        yield running


@pytest.fixture(name="fans")
def fans_fixture(server: Server) -> Federation:
    """A federation of three devices that have published nothing."""
    made = server.found(charter())
    made.enrol("fan-1", "fan-2", "fan 3/ü")
    return made


def refused(answer: httpx.Response, kind: str) -> dict[str, Any]:
    """Checks that an answer is a problem document as RFC 9457 wants it, and gives it."""
    status, title = KINDS[kind]
    assert (answer.status_code, answer.headers["content-type"]) == (
        status,
        "application/problem+json",
    ), answer.text
    problem = answer.json()
    assert problem["type"] == f"urn:elmgrove:problem:{kind}"
    assert (problem["status"], problem["title"]) == (status, title)
    assert problem["instance"] == httpx.URL(answer.request.url).path
    assert problem["detail"]
    assert ("www-authenticate" in answer.headers) == (status == 401)
    return dict(problem)


# Requests over plain HTTP, without the certificates that httpx would load for each of them.


http_get = partial(httpx.get, verify=False)


# A signer of certificates for tests, by trustme.


@dataclass
class Authority:
    """A signer of certificates, and the folder in which they lie."""

    folder: Path
    signer: trustme.CA

    def signed(self, name: str) -> dict[str, str]:
        """The files of a new certificate, for a machine or in the name of a client."""
        made = self.signer.issue_cert(name, common_name=name)
        files = {"certificate": f"{name}.pem", "private_key": f"{name}.key"}
        paths = {what: str(self.folder / file) for what, file in files.items()}
        made.private_key_pem.write_to_path(paths["private_key"])
        for pem in made.cert_chain_pems:
            pem.write_to_path(paths["certificate"], append=True)
        return paths

    def signed_with_key(self, name: str) -> str:
        """The file of a new certificate and its key, as a device's setting has it."""
        files = self.signed(name)
        with Path(files["certificate"]).open("a") as both:
            both.write(Path(files["private_key"]).read_text())
        return files["certificate"]

    @property
    def ca(self) -> str:
        path = self.folder / "ca.pem"
        if not path.exists():  # written once: a server may be reading it
            self.signer.cert_pem.write_to_path(str(path))
        return str(path)


@pytest.fixture(name="authority")
def authority_fixture(tmp_path: Path) -> Authority:
    return Authority(tmp_path, trustme.CA())


# Stores for tests: on each data base, with a federation in it, and closed at the end.


FANS = FederationRow("fans", {}, 1e-3, None, "t0", 12.5)


@asynccontextmanager
async def opened(url: str) -> AsyncIterator[Store]:
    """Opens a store inside ``async with``."""
    store = await open_store(url)
    try:
        yield store
    finally:
        await store.close()


@pytest.fixture
def anyio_backend() -> str:
    """What tests that are coroutines run on."""
    return "asyncio"


async def enrol(store: Store, *names: str, federation: str = "fans") -> None:
    """Enrols devices, each with a key of its own."""
    for name in names:
        device = DeviceRow(name, f"k-{name}", False, 5.0)
        assert await store.federations.enrol(federation, device, again=False)


async def put(
    store: Store,
    origin: str,
    blob: bytes | None = b"x",
    successor: Callable[[StoredEntry | None], bool] = lambda held: True,
    federation: str = "fans",
    **more: Any,
) -> StoredEntry:
    """Stores a contribution, or a departure, whatever is held of the device."""
    return await store.contributions.put(
        federation, origin, 7, 2.5, blob, 99.25, successor=successor, **more
    )


@pytest.fixture
async def store(database: str) -> AsyncIterator[Store]:
    """One that holds the federation ``FANS``."""
    async with opened(database) as store:
        assert await store.federations.create(FANS)
        yield store
