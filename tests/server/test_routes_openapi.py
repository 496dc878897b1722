"""The description of the interface: valid, and of all there is."""

from typing import Any

import pytest
from openapi_spec_validator import OpenAPIV31SpecValidator

from elmgrove import __version__
from elmgrove.server.app import make_app
from elmgrove.server.problems import KINDS
from elmgrove.server.routes import ROUTES, openapi_document
from support.serving import Server


@pytest.fixture(name="described")
def described_fixture(server: Server) -> dict[str, Any]:
    found: dict[str, Any] = server.ask("GET", "/openapi.json").json()
    return found


def operations(described: dict[str, Any]) -> dict[tuple[str, str], dict[str, Any]]:
    return {
        (method.upper(), path): operation
        for path, methods in described["paths"].items()
        for method, operation in methods.items()
    }


def test_the_document_is_valid(described: dict[str, Any]) -> None:
    OpenAPIV31SpecValidator(described).validate()
    assert described == openapi_document()
    assert described["info"]["version"] == __version__


def test_every_route_is_in_it(described: dict[str, Any]) -> None:
    app = make_app("unused.db", "unused")
    routed = {
        (method, route.path.replace(":path", ""))
        for route in app.routes
        if route.path.startswith(("/v1/", "/health", "/ready", "/metrics"))
        for method in route.methods - {"HEAD"}
    }
    assert set(operations(described)) == routed
    assert len(routed) == len(ROUTES)


def test_every_operation_says_what_it_does_and_what_it_needs(described: dict[str, Any]) -> None:
    found = operations(described)
    assert len({operation["operationId"] for operation in found.values()}) == len(found)
    for (_, path), operation in found.items():
        assert operation["summary"].strip()
        assert ("security" in operation) == (path not in ("/health", "/ready"))
        places = [p["name"] for p in operation["parameters"] if p["in"] == "path"]
        assert all(f"{{{name}}}" in path for name in places)
        assert len(places) == path.count("{")
        assert "application/problem+json" in operation["responses"]["default"]["content"]


def test_every_kind_of_problem_is_in_it(described: dict[str, Any]) -> None:
    problem = described["components"]["schemas"]["Problem"]
    kinds = {name.rpartition(":")[2] for name in problem["properties"]["type"]["enum"]}
    assert kinds == set(KINDS)
    assert problem["required"] == ["type", "title", "status", "detail", "instance"]
    for status, title in KINDS.values():
        assert 400 <= status < 600
        assert title
