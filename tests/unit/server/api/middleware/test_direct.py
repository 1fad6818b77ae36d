"""Routes that are called past FastAPI's router answer as they would through it."""

from __future__ import annotations

import pytest
from fastapi import Depends, FastAPI
from fastapi.routing import APIRoute
from starlette.requests import Request
from starlette.responses import Response

from server.api.app import ROUTERS
from server.api.middleware.direct import Direct, bare

BODY = {"q": "Hello world", "source": "en", "target": "de"}


def direct(client) -> Direct:
    layer = client.app.layers
    while not isinstance(layer, Direct):
        layer = layer.app
    return layer


@pytest.fixture(params=["direct", "through FastAPI"])
def either(request, client):
    if request.param != "direct":
        direct(client).routes.clear()
    return client


def test_the_busiest_routes_are_direct(client):
    assert {("POST", "/translate"), ("POST", "/detect"), ("POST", "/v2/translate")} <= set(direct(client).routes)


def test_answers_errors_and_metrics_are_the_same_either_way(either):
    assert either.post("/translate", json=BODY).json()["translatedText"] == "dlrow olleH"
    missing = either.post("/translate", json={"source": "en", "target": "de"})
    assert (missing.status_code, missing.json()) == (400, {"error": "Invalid request: missing q parameter."})
    assert either.post("/translate", content=b"{", headers={"Content-Type": "application/json"}).status_code == 400
    assert either.get("/translate").status_code == 405
    assert either.post("/translate/", json=BODY).json()["translatedText"] == "dlrow olleH"  # by way of a redirect
    counted = either.get("/metrics").text
    assert 'attentive_http_requests_total{method="POST",route="/translate",status="400"} 2.0' in counted


def test_what_nobody_foresaw_is_a_500_either_way(either, monkeypatch):
    def broken(*_):
        raise RuntimeError("the words of a user")

    monkeypatch.setattr("server.api.routes.translate.translation_request", broken)
    answer = either.post("/translate", json=BODY)
    assert answer.status_code == 500
    assert answer.json() == {"error": "Something went wrong on the server; its log says what."}


def test_refusals_for_want_of_room_are_counted_either_way(either):
    either.app.state.services.translator.admission.limit = 0
    either.app.state.services.translator.admission.accepted = 1
    assert either.post("/translate", json=BODY).status_code == 429
    assert 'attentive_requests_rejected_total{reason="queue"} 1.0' in either.get("/metrics").text


def test_only_bare_routes_are_called_past_the_router():
    app = FastAPI()

    async def alone(request: Request) -> Response:
        return Response()

    async def asking(request: Request, name: str) -> Response:
        return Response()

    def blocking(request: Request) -> Response:
        return Response()

    app.add_api_route("/bare", alone)
    app.add_api_route("/bare", asking, methods=["POST"])
    app.add_api_route("/blocking", blocking)
    app.add_api_route("/guarded", alone, dependencies=[Depends(lambda: None)])
    app.add_api_route("/of/{name}", asking)
    assert set(bare(app.routes)) == {("GET", "/bare")}


def test_a_route_with_a_dependency_is_never_called_without_it():
    guarded = {
        (method, route.path)
        for router in ROUTERS
        for route in router.routes
        if isinstance(route, APIRoute) and (route.dependencies or route.dependant.dependencies)
        for method in route.methods
    }
    assert ("GET", "/attention") in guarded
    assert guarded.isdisjoint(bare(route for router in ROUTERS for route in router.routes))
