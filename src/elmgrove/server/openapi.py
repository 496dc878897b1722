"""The description of the interface, as OpenAPI 3.1: made of what the server offers."""

import inspect
import re
from typing import Any

from elmgrove import __version__
from elmgrove.server.problems import SCHEMA
from elmgrove.server.routes import OFFERS, Offer

_PLACE = re.compile(r"\{(\w+)(?::\w+)?\}")


def openapi_document() -> dict[str, Any]:
    """Describes all that the server offers, as OpenAPI 3.1."""
    paths: dict[str, dict[str, Any]] = {}
    for offer in OFFERS:
        path = _PLACE.sub(r"{\1}", offer.path)
        paths.setdefault(path, {})[offer.method.lower()] = _operation(offer)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Elmgrove exchange",
            "version": __version__,
            "description": "Devices put what they learned and get what the others learned.",
        },
        "paths": paths,
        "components": {
            "schemas": {"Problem": SCHEMA},
            "securitySchemes": {"bearer": {"type": "http", "scheme": "bearer"}},
        },
    }


def _operation(offer: Offer) -> dict[str, Any]:
    doc = inspect.getdoc(offer.handler) or ""
    operation: dict[str, Any] = {
        "operationId": offer.name,
        "summary": doc.splitlines()[0],
        "parameters": _parameters(offer),
        "responses": {
            str(offer.success): {"description": "Done"} | _content(offer.content),
            "default": {
                "description": "Refused; nothing was changed",
                "content": {
                    "application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}}
                },
            },
        },
    }
    if offer.secrets:
        operation["description"] = f"Needs: {' or '.join(offer.secrets)}."
        operation["security"] = [{"bearer": []}]
    if offer.body is not None:
        operation["requestBody"] = {"required": True} | _content(offer.body)
    return operation


def _parameters(offer: Offer) -> list[dict[str, Any]]:
    text = {"schema": {"type": "string"}}
    places = [
        {"name": name, "in": "path", "required": True, **text}
        for name in _PLACE.findall(offer.path)
    ]
    return places + [{"name": name, "in": "query", **text} for name in offer.query]


def _content(media: str | None) -> dict[str, Any]:
    if media is None:
        return {}
    kind = "object" if media == "application/json" else "string"
    return {"content": {media: {"schema": {"type": kind}}}}
