"""A real Home Assistant, headless, with its mqtt integration set up for a broker of a test."""

import base64
import hashlib
import hmac
import json
import os
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

from support.mosquitto import Mosquitto
from support.places import ROOT
from support.ports import reserved_port
from support.services import unavailable

#: Where an environment with Home Assistant is, which needs a newer Python than the tests.
VARIABLE = "ELMGROVE_TEST_HOME_ASSISTANT"
_READER = ROOT / "tests" / "support" / "home_assistant_schema.py"
_EPOCH = "2025-01-01T00:00:00+00:00"
_USER, _TOKEN, _KEY = "u" * 32, "t" * 32, "k" * 64
#: Longer than it takes to begin on a machine that is busy with other tests.
PATIENCE = 300.0


@dataclass(frozen=True)
class Environment:
    """Where Home Assistant is installed, and maybe another version, unpacked without its needs."""

    folder: Path

    def read(self, message: dict[str, Any], *, later: bool = False) -> dict[str, Any]:
        """Lets the mqtt component read a discovery message; what it refuses is raised."""
        path = str(self.folder / "later") if later else ""
        done = subprocess.run(
            [self.folder / "bin" / "python", _READER],
            input=json.dumps(message),
            capture_output=True,
            text=True,
            env={**os.environ, "PYTHONPATH": path},
        )
        assert done.returncode == 0, done.stderr
        found: dict[str, Any] = json.loads(done.stdout)
        return found


@pytest.fixture(scope="session")
def home_assistant() -> Environment:
    """Home Assistant is installed somewhere."""
    where = os.environ.get(VARIABLE)
    if not where:
        unavailable("needs Home Assistant: run .ci/home-assistant", "HOME_ASSISTANT")
    return Environment(Path(where))


@dataclass
class House:
    """A Home Assistant that runs."""

    url: str
    log: Path
    process: subprocess.Popen[bytes]

    def states(self) -> dict[str, dict[str, Any]]:
        """The state of each entity, with its attributes."""
        found = self._ask("GET", "/api/states")
        return {one["entity_id"]: one for one in found}

    def state(self, entity: str) -> str | None:
        found = self.states().get(entity)
        return None if found is None else str(found["state"])

    def press(self, button: str) -> None:
        self._ask("POST", "/api/services/button/press", {"entity_id": button})

    def rendered(self, template: str) -> str:
        """What a template says, which knows devices as well."""
        return self._send("POST", "/api/template", {"template": template}).text

    def until(self, condition: Callable[[], bool]) -> None:
        end = time.monotonic() + PATIENCE
        while not condition():
            assert self.process.poll() is None, self.log.read_text()
            assert time.monotonic() < end, f"{self.states()}\n{self.log.read_text()}"
            time.sleep(0.1)

    def answers(self) -> bool:
        try:
            return bool(self._ask("GET", "/api/config")["state"] == "RUNNING")
        except httpx.HTTPError:
            return False

    def _ask(self, method: str, path: str, asked: Any = None) -> Any:
        return self._send(method, path, asked).json()

    def _send(self, method: str, path: str, asked: Any) -> httpx.Response:
        headers = {"Authorization": f"Bearer {_bearer()}"}
        answer = httpx.request(method, self.url + path, json=asked, headers=headers, timeout=60.0)
        return answer.raise_for_status()


@contextmanager
def living_in(folder: Path, environment: Environment, place: Mosquitto) -> Iterator[House]:
    """Runs a Home Assistant whose files are in a folder; a second time, it goes on with them."""
    with reserved_port() as port:
        storage = folder / ".storage"
        if not storage.exists():
            storage.mkdir(parents=True)
            (storage / "auth").write_text(json.dumps(_auth()))
            (storage / "core.config_entries").write_text(json.dumps(_entries(place.port)))
        # Nothing more than it needs: the programming interface, and the page that it insists on.
        (folder / "configuration.yaml").write_text(
            f"http:\n  server_host: 127.0.0.1\n  server_port: {port}\napi:\n"
        )
        log = folder / "log"
        with log.open("ab") as said:
            process = subprocess.Popen(
                [environment.folder / "bin" / "hass", "-c", folder, "--skip-pip"],
                stdout=said,
                stderr=said,
            )
        house = House(f"http://127.0.0.1:{port}", log, process)
        try:
            house.until(house.answers)
            yield house
        finally:
            process.terminate()
            try:
                process.wait(60)
            finally:
                process.kill()


def _auth() -> dict[str, Any]:
    """An owner, who has a token that lasts."""
    user = {"id": _USER, "name": "owner", "group_ids": ["system-admin"], "is_owner": True}
    token = {
        "id": _TOKEN,
        "user_id": _USER,
        "token_type": "long_lived_access_token",
        "client_id": None,
        "client_name": "test",
        "created_at": _EPOCH,
        "access_token_expiration": 315360000.0,
        "token": "x" * 64,
        "jwt_key": _KEY,
    }
    more = {"is_active": True, "system_generated": False, "local_only": False}
    data = {
        "users": [{**user, **more}],
        "groups": [{"id": "system-admin", "name": "Administrators"}],
        "credentials": [],
        "refresh_tokens": [token],
    }
    return {"version": 1, "minor_version": 1, "key": "auth", "data": data}


def _entries(port: int) -> dict[str, Any]:
    """The integration mqtt, as its dialog sets it up."""
    entry = {
        "entry_id": "e" * 26,
        "domain": "mqtt",
        "title": "mosquitto",
        "data": {"broker": "127.0.0.1", "port": port, "protocol": "5"},
        "options": {},
        "version": 1,
        "minor_version": 2,
        "source": "user",
        "unique_id": None,
        "disabled_by": None,
        "pref_disable_new_entities": False,
        "pref_disable_polling": False,
        "discovery_keys": {},
        "subentries": [],
        "created_at": _EPOCH,
        "modified_at": _EPOCH,
    }
    return {
        "version": 1,
        "minor_version": 5,
        "key": "core.config_entries",
        "data": {"entries": [entry]},
    }


def _bearer() -> str:
    """The owner's token as it is shown: signed, by HS256."""
    now = int(time.time())
    parts = [{"alg": "HS256", "typ": "JWT"}, {"iss": _TOKEN, "iat": now, "exp": now + 3600}]
    said = ".".join(_coded(json.dumps(part).encode()) for part in parts)
    signed = hmac.new(_KEY.encode(), said.encode(), hashlib.sha256).digest()
    return f"{said}.{_coded(signed)}"


def _coded(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()
