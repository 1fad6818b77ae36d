"""The steps of a translation on the fake engine, which reverses every sentence."""

from __future__ import annotations

import asyncio

import pytest

from server.config import Settings
from server.engine.client import batch
from server.engine.ipc.messages import JobResult
from server.services import Services
from server.translation.types import Translation, TranslationRequest
from tests.support.engine.fake_engine import FIRST, FakeEngine, FakeTokenizer, fake_catalog
from tests.support.engine.translating import translated

PAGE = "<p>Das <b>rote Haus</b> ist groß</p><ul><li>a &amp; <i>b</i></li></ul>"


def translate(
    source: str,
    target: str,
    text: str = PAGE,
    format: str = "html",
    engine: FakeEngine | None = None,
) -> Translation:
    return translated(engine or FakeEngine(), text, source, target, format=format)


def test_markup_follows_its_words_over_two_legs():
    assert translate("de", "fr").text == PAGE  # reversed twice


class RetryingEngine(FakeEngine):
    """Answers masked sentences only when `retries` of them have been sent."""

    def __init__(self, retries: int) -> None:
        super().__init__()
        self.retries = retries
        self.all_sent: asyncio.Event | None = None

    async def _translate(self, ids, options, on_progress) -> JobResult:
        self.all_sent = self.all_sent or asyncio.Event()
        if "http" not in FakeTokenizer().decode([i for i in ids if i >= FIRST]):
            self.retries -= 1
            if self.retries == 0:
                self.all_sent.set()
            await asyncio.wait_for(self.all_sent.wait(), 60)
        return await super()._translate(ids, options, on_progress)


def test_the_sentences_of_a_text_are_repeated_at_the_same_time():
    text = "\n".join(f"See http://example.org/{i} {chr(97 + i)}" for i in range(20))
    engine = RetryingEngine(20)
    translated = translate("de", "en", text, "text", engine).text
    assert [line.split("example.org/")[1].split()[0] for line in translated.split("\n")] == [
        str(i) for i in range(20)
    ]
    assert engine.retries == 0


@pytest.mark.parametrize(
    ("text", "aligned"),
    [
        ("See http://a.b/1 now", 1),
        ("See http://a.b/1 http://a.b/2 it", 1),
        ("See http://a.b/1 http://a.b/2 http://a.b/3 it", 0),
    ],
)
def test_a_sentence_that_is_mostly_masked_is_not_aligned_by_attention(text, aligned):
    engine = FakeEngine()
    translated = translate("de", "en", text, "text", engine).text
    assert all(word in translated for word in text.split() if word.startswith("http"))
    assert len(engine.attended) == aligned


def test_a_long_text_is_sent_in_pieces(monkeypatch):
    monkeypatch.setattr(batch, "MOST", 40)
    engine = FakeEngine(delay=0.001)
    in_flight: set[asyncio.Future[object]] = set()
    most, submit = 0, engine.submit

    def counted(*arguments, **options):
        nonlocal most
        future = submit(*arguments, **options)
        in_flight.add(future)
        future.add_done_callback(in_flight.discard)
        most = max(most, len(in_flight))
        return future

    monkeypatch.setattr(engine, "submit", counted)
    text = "\n".join(f"{'x' * i} y" for i in range(1, 200))
    assert translated(engine, text, "en", "de").text == "\n".join(
        f"y {'x' * i}" for i in range(1, 200)
    )
    assert most == 40


EQUAL = (
    "The cat sleeps.",
    "See http://a.b/1 and <b>this</b> now",
    "{n, plural, one {a cat} other {cats}} sleep",
    "Ab 1",
)


def test_equal_sentences_are_translated_and_aligned_once_and_are_at_their_places():
    for line in EQUAL:
        alone, engine = translate("de", "en", line, "text", once := FakeEngine()), FakeEngine()
        whole = translate("de", "en", f"{line}\n" * 50, "text", engine)
        assert whole.text == f"{alone.text}\n" * 50
        assert (len(engine.submitted), len(engine.attended)) == (
            len(once.submitted),
            len(once.attended),
        )
        [sources] = {tuple([each.source for each in leg.sentences]) for leg in whole.legs}
        assert sources == tuple([each.source for each in alone.legs[0].sentences]) * 50
        assert len(whole.legs[0].distinct) == len(alone.legs[0].distinct)
    page = "<p>ein <b>rotes</b> Haus</p>"
    assert (
        translate("de", "en", page * 50, engine=engine).text
        == translate("de", "en", page).text * 50
    )
    assert len(engine.attended) <= 2 + len(EQUAL)


def test_equal_looks_share_one_pass_like_equal_sentences():
    """Two requests of different callers for the same marked text are decoded and aligned once."""

    async def scenario() -> tuple[set[str], FakeEngine]:
        engine = FakeEngine(delay=0.01)
        services = Services(Settings(cache_bytes=0), engine, fake_catalog())
        await services.start()
        await services.loaded()
        try:
            requests = [
                TranslationRequest(
                    texts=(PAGE,), source="de", target="en", format="html", client=client
                )
                for client in "ab"
            ]
            answers = await asyncio.gather(
                *[services.translator.translate(request) for request in requests]
            )
            return {answer.text for [answer] in answers}, engine
        finally:
            await services.stop()

    texts, engine = asyncio.run(scenario())
    translated_alone = translate("de", "en", engine=(alone := FakeEngine())).text
    assert texts == {translated_alone}
    assert (len(engine.submitted), len(engine.attended)) == (
        len(alone.submitted),
        len(alone.attended),
    )
