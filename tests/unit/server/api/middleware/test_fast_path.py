"""Requests have the same answers with the fast path and without it."""

from typing import Annotated

import pytest
from fastapi import APIRouter, Depends
from fastapi.routing import APIRoute
from starlette.requests import Request
from starlette.responses import Response

from server.api.app import ROUTES
from server.api.middleware.fast_path import direct_routes
from server.api.parameters import ParameterReader
from server.api.schemas.base import Parameters

BODY = {"q": "Hello world", "source": "en", "target": "de"}


@pytest.fixture(params=["fast path", "FastAPI"])
def either(request, serve, monkeypatch):
    if request.param == "FastAPI":
        monkeypatch.setattr("server.api.middleware.fast_path.direct_routes", lambda routes: {})
    return serve()


def test_the_busiest_routes_are_called_directly():
    assert {("POST", "/translate"), ("POST", "/detect"), ("POST", "/v2/translate")} <= set(direct_routes(ROUTES))


def test_answers_errors_and_metrics_are_the_same_either_way(either):
    assert either.post("/translate", json=BODY).json()["translatedText"] == "dlrow olleH"
    missing = either.post("/translate", json={"source": "en", "target": "de"})
    assert (missing.status_code, missing.json()) == (400, {"error": "Invalid request: missing q parameter."})
    assert either.post("/translate", content=b"{", headers={"Content-Type": "application/json"}).status_code == 400
    assert either.get("/translate").status_code == 405
    assert either.post("/translate/", json=BODY).json()["translatedText"] == "dlrow olleH"  # after a redirect
    counted = either.get("/metrics").text
    assert 'attentive_http_requests_total{method="POST",route="/translate",status="400"} 2.0' in counted


def test_an_unexpected_exception_is_a_500_either_way(either, monkeypatch):
    def broken(*_):
        raise RuntimeError("the words of a user")

    monkeypatch.setattr("server.api.routes.translate.translation_request", broken)
    answer = either.post("/translate", json=BODY)
    assert answer.status_code == 500
    assert answer.json() == {"error": "Something went wrong on the server; its log says what."}


def test_rejections_for_a_full_queue_are_counted_either_way(either):
    admission = either.app.state.services.translator.admission
    admission.limit = 0
    with admission.admit(1):
        assert either.post("/translate", json=BODY).status_code == 429
    assert 'attentive_requests_rejected_total{reason="queue"} 1.0' in either.get("/metrics").text


class NameParameters(Parameters):
    name: str


def test_only_endpoints_with_the_request_and_one_reader_are_called_directly():
    router = APIRouter()
    name = Annotated[NameParameters, Depends(ParameterReader(NameParameters))]

    async def alone(request: Request) -> Response:
        return Response()

    async def reading(request: Request, asked: name) -> Response:
        return Response()

    async def asking(request: Request, name: str) -> Response:
        return Response()

    async def depending(request: Request, other: Annotated[str, Depends(lambda: "")]) -> Response:
        return Response()

    def blocking(request: Request) -> Response:
        return Response()

    router.add_api_route("/alone", alone)
    router.add_api_route("/alone", asking, methods=["POST"])
    router.add_api_route("/reading", reading)
    router.add_api_route("/depending", depending)
    router.add_api_route("/blocking", blocking)
    router.add_api_route("/guarded", alone, dependencies=[Depends(lambda: None)])
    router.add_api_route("/of/{name}", asking)
    routes = [route for route in router.routes if isinstance(route, APIRoute)]
    assert set(direct_routes(routes)) == {("GET", "/alone"), ("GET", "/reading")}
