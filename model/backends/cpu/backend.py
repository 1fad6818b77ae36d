"""The CPU backend: the interface of model.search on the compiled C++ code. Arguments are checked
before a pointer is passed. Imports no torch."""

from __future__ import annotations

import math
from collections.abc import Generator, Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Literal

import numpy as np

from model.analysis.contributions import value_products
from model.analysis.pair_alignment import WordedSentence, WordReading, check_words
from model.analysis.tensors import check_followed, norm_parameters
from model.analysis.types import (
    CANDIDATES,
    EVERYTHING,
    AttentionMaps,
    Head,
    HeadMask,
    MapChoice,
    check_choice,
    check_head,
    check_pair,
)
from model.backends.cpu import bindings as library
from model.backends.cpu.attention_capture import AttentionCapture
from model.backends.cpu.bindings import CpuBackendError, Float32, Int32, UInt8, address
from model.backends.cpu.isa import CpuBackendUnavailable, Isa
from model.backends.cpu.weights import Tensors, linears, unsupported, vectors
from model.backends.interface import ForcedPasses
from model.config import ModelConfig
from model.int8_calibration import for_int8, row_ranges
from model.model_folder import FolderError, ModelFolder
from model.search.backend_interface import Restriction, StepOutput, with_forced
from model.shortlist import Shortlist, ShortlistUse, read_shortlist
from model.weight_files import SafetensorFiles, position_table, weight_files

Precision = Literal["float32", "int8"]
MAX_THREADS = 256
MOST_CAPTURES = 16
"""Most pairs of one call of `capture` (Engine::kCaptures)."""
MOST_HELD = 4
"""Most forced passes that have begun (Engine::kHeld)."""
PART_TOKENS, LEAST_ROWS, PART_WORK = 512, 32, 1 << 14
"""A part of a forced pass: its source tokens times encoder layers; its least rows, and its rows
times tokens that they read. About ten milliseconds each."""
Pair = tuple[Sequence[int], Sequence[int]]
_PRECISIONS = {"float32": 0, "int8": 1}
_ACTIVATIONS = {"relu": 0, "swish": 1, "gelu": 2}


def open_backend(
    folder: ModelFolder,
    library: Path,
    *,
    slots: int,
    threads: int,
    precision: Precision,
    shortlist: ShortlistUse = "off",
) -> CpuBackend:
    """Opens a model folder. `shortlist` says whether the folder's shortlist limits sentences by
    default. Raises CpuBackendUnavailable for an unsupported shape, FolderError for invalid
    weights."""
    if reason := unsupported(folder.model):
        raise CpuBackendUnavailable(reason)
    tensors = SafetensorFiles(weight_files(folder.path))
    positions = position_table(folder.model, tensors)
    listed = read_shortlist(folder)
    limits = shortlist == "on" or (shortlist == "auto" and listed is not None and listed.by_default)
    try:
        return CpuBackend(
            library,
            folder.model,
            tensors,
            positions,
            slots=slots,
            threads=threads,
            precision=precision,
            shortlist=listed,
            limits=limits,
        )
    except ValueError as error:
        raise FolderError(str(error)) from None
    except CpuBackendError as error:
        raise FolderError(f"The CPU backend cannot load the weights: {error}.") from None


class CpuBackend(ForcedPasses):
    """One model in one precision with its own threads and slots. Calls are serialised and release
    the interpreter lock.

    `tensors` are the Transformer's parameters by name, float32; `positions` is the table
    (max_length, d_model) that is added to embeddings. With a `shortlist` that `limits`, a row
    writes only tokens that its source allows, and its forced ones, unless its Restriction differs.
    """

    def __init__(
        self,
        path: Path,
        config: ModelConfig,
        tensors: Tensors,
        positions: Float32,
        *,
        slots: int,
        threads: int,
        precision: Precision,
        shortlist: Shortlist | None = None,
        limits: bool = True,
    ) -> None:
        if slots < 1 or not 1 <= threads <= MAX_THREADS:
            raise ValueError(f"slots must be at least 1 and threads between 1 and {MAX_THREADS}.")
        self.config, self.slots, self.precision, self.end = config, slots, precision, config.eos_id
        self._handle: int | None = None
        self._commons = 0
        self._held = [*range(MOST_HELD)]
        """Numbers of forced passes that are free."""
        self._outputs: list[Float32] = []
        """The output projection of each layer's cross-attention, (H, D, d_model)."""
        self._key_shifts: list[Float32] = []
        """What the int8 keys of each layer's cross-attention lack, (H, D): equal for every key, so
        weights stay the same."""
        self._norms: dict[str, Float32] = {}
        """Gains and biases of the norms by name, as the C++ code has them."""
        self._library = library.load(path)
        scale = math.sqrt(config.d_model) if config.scale_embeddings else 1.0
        integers = [
            _PRECISIONS[precision], config.vocab_size, config.source_vocab_size or config.vocab_size, config.d_model,
            config.heads, config.d_ff, config.encoder_layers, config.decoder_layers, int(config.norm == "pre"),
            int(config.tied_embeddings), int(config.zero_start_embedding),
            int(config.recurrence != "none"), int(config.embedding_norm), _ACTIVATIONS[config.activation],
            config.max_length, slots, threads,
        ]  # fmt: skip
        shape = _int32(integers)
        reals = np.array([config.norm_epsilon, scale], dtype=np.float32)
        self._handle = self._library.attentive_create(address(shape), address(reals))
        if not self._handle:
            raise CpuBackendError(self._library.attentive_error().decode())
        self._load(tensors, positions)
        self._shortlist, self._limits = shortlist, limits and shortlist is not None
        self._common: list[int] | None = None
        """Numbers of the common lists in the C++ code, -1 for an empty one; None before the first
        use."""

    @property
    def isa(self) -> Isa:
        """The library's instruction set."""
        name: Isa = self._library.attentive_isa().decode()
        return name

    @property
    def shortlist(self) -> str:
        """The digest of the shortlist that limits targets by default; "" if none does."""
        return self._shortlist.digest if self._shortlist is not None and self._limits else ""

    def has_shortlist(self, digest: str) -> bool:
        return self._shortlist is not None and self._shortlist.digest == digest

    @property
    def details(self) -> Mapping[str, str]:
        return {"isa": self.isa}

    def __del__(self) -> None:
        self.close()

    def close(self) -> None:
        handle, self._handle = getattr(self, "_handle", None), None
        if handle:
            self._library.attentive_destroy(handle)

    def prefill(
        self,
        sources: Sequence[Sequence[int]],
        slots: Sequence[int],
        masked_heads: Sequence[HeadMask] = (),
        restrictions: Sequence[Restriction] = (),
    ) -> None:
        """Encodes each source (1 to max_length ids) and starts a row in its slot, with its
        `masked_heads` and `restrictions`."""
        if len(sources) != len(slots):
            raise ValueError(f"{len(sources)} sources for {len(slots)} slots.")
        if not sources:
            return
        lengths = _int32([len(source) for source in sources])
        tokens = _int32([token for source in sources for token in source])
        if lengths.min() < 1 or lengths.max() > self.config.max_length:
            raise ValueError(f"A source must have 1 to {self.config.max_length} tokens.")
        where = self._slots(slots)
        if len(set(slots)) != len(slots):
            raise ValueError("Slots of one prefill must be distinct.")
        masked = self._masked(masked_heads, len(sources))
        self._call(
            "prefill",
            len(sources),
            address(where),
            address(lengths),
            address(tokens),
            address(masked),
        )
        restricted = restrictions or [Restriction()] * len(sources)
        for source, slot, restriction in zip(sources, slots, restricted, strict=True):
            common, own = self._allowed_by(restriction, source)
            if common >= 0 or len(own):
                self.restrict(slot, own, common)

    def _allowed_by(self, restriction: Restriction, source: Sequence[int]) -> tuple[int, Int32]:
        """Returns the common list (-1 for none) and the own tokens of a target for `source`;
        neither if all tokens are allowed. Raises ValueError for another shortlist than the
        model's."""
        digest, listed = restriction.shortlist, self._shortlist
        if digest and not self.has_shortlist(digest):
            raise ValueError(f"The model has no shortlist {digest}.")
        limited = self._limits if digest is None else bool(digest)
        split = (
            listed.split(source, self.end, restriction.forced)
            if limited and listed is not None
            else None
        )
        if split is None or listed is None:
            return -1, _int32(())
        if self._common is None:
            self._common = [
                self.add_common(tokens) if len(tokens) else -1 for tokens in listed.common()
            ]
        return self._common[split[0]], split[1]

    def add_common(self, tokens: Int32) -> int:
        """Stores a list of `tokens`, ascending, that many sentences may write. Returns its number
        for `restrict`."""
        ids = self._allowed(tokens)
        self._call("add_common", address(ids), len(ids))
        self._commons += 1
        return self._commons - 1

    def restrict(self, slot: int, own: Int32, common: int = -1) -> None:
        """Restricts the sentence in `slot` to its `own` tokens, ascending, and to a common list
        that has none of them. They have the whole probability; other candidates and forced tokens
        have the score -inf."""
        ids = self._allowed(own)
        self._check_slots([slot])
        self._call("restrict", slot, common, address(ids), len(ids))

    def _allowed(self, tokens: Int32) -> Int32:
        if len(tokens) and (
            tokens[0] < 0 or tokens[-1] >= self.config.vocab_size or (np.diff(tokens) < 1).any()
        ):
            raise ValueError("Allowed tokens must be ascending ids of the vocabulary.")
        return np.ascontiguousarray(tokens, dtype=np.int32)

    def step(
        self,
        slots: Sequence[int],
        tokens: Sequence[int],
        candidates: int,
        forced: Sequence[int],
        capture: AttentionCapture | None = None,
    ) -> StepOutput:
        """Advances each row by its token. Returns its `candidates` best next tokens, ties by lower
        id, a forced one in column 0. `capture`, allowed for one row, receives the attention weights
        of its position."""
        rows, columns = len(slots), min(candidates, self.config.vocab_size)
        if len(tokens) != rows or len(forced) != rows:
            raise ValueError(
                f"{rows} slots, {len(tokens)} tokens and {len(forced)} forced tokens must be "
                "equally many."
            )
        ids, scores, forced_scores = self._candidates(rows, columns)
        if rows:
            stacked = _int32((slots, tokens, forced))  # one array: taking an address is slow
            self._check_slots(slots)
            self._check_forced(forced)
            first, row = stacked.ctypes.data, stacked.strides[0]
            self._call(
                "step", rows, first, first + row, columns, first + 2 * row, address(ids), address(scores),
                address(forced_scores), None if capture is None else capture.address,
            )  # fmt: skip
        return with_forced(StepOutput(ids.astype(np.int64), scores), forced, forced_scores)

    def forced_steps(
        self, slots: Sequence[int], tokens: Sequence[Sequence[int]], forced: Sequence[Sequence[int]]
    ) -> list[Float32]:
        """Advances each slot by several known tokens in one pass, bit for bit as in single steps.
        Returns the log-probabilities of each slot's forced tokens."""
        lengths = _int32([len(read) for read in tokens])
        if len(slots) != len(lengths) or [len(written) for written in forced] != lengths.tolist():
            raise ValueError("forced_steps needs as many forced tokens as tokens for each slot.")
        if not len(slots):
            return []
        if (
            lengths.min() < 1
            or lengths.max() > self.config.max_length
            or len(set(slots)) != len(slots)
        ):
            raise ValueError(
                f"forced_steps needs 1 to {self.config.max_length} tokens for each of its distinct "
                "slots."
            )
        where = self._slots(slots)
        fed, scored = _int32([*chain.from_iterable(tokens)]), _int32([*chain.from_iterable(forced)])
        self._check_forced(scored.tolist())
        if scored.min() < 0:
            raise ValueError("forced_steps needs a forced token for each token read.")
        scores_read = np.empty(len(fed), dtype=np.float32)
        self._call(
            "forced_steps", len(where), address(where), address(lengths), address(fed), address(scored), address(scores_read),
        )  # fmt: skip
        return np.split(scores_read, np.cumsum(lengths)[:-1])

    def attention_passes(
        self,
        source: Sequence[int],
        target: Sequence[int],
        masked_heads: HeadMask = (),
        vectors_of: Head | None = None,
        shortlist: str | None = None,
        choice: MapChoice = EVERYTHING,
    ) -> Generator[None, None, AttentionMaps]:
        """Returns the chosen attention weights and scores of a pair, computed over the whole target
        (teacher forcing), bit for bit as step by step with this `shortlist`. Yields between the
        parts of a long pass. Raises ValueError as `attention_maps`, and RuntimeError if too many
        passes have begun."""
        config = self.config
        check_pair(config, source, target)
        check_choice(config, choice)
        check_followed(config, choice.followed, source, target)
        inputs, written = [config.decoder_start_id, *target], [*target, config.eos_id]
        capture = AttentionCapture(config, len(source), len(inputs), vectors_of, choice)
        columns = min(CANDIDATES, config.vocab_size)
        ids, scores, forced_scores = self._candidates(len(inputs), columns)
        read, fed, scored = _int32(source), _int32(inputs), _int32(written)
        masked = self._masked([masked_heads], 1)
        if not choice.scores:
            shortlist = ""
        common, own = self._allowed_by(Restriction(shortlist, tuple(target)), source)
        added = set(own.tolist()).difference(
            self._allowed_by(Restriction(shortlist), source)[1].tolist()
        )
        outside = tuple(place for place, token in enumerate(target) if token in added)
        arguments = (
            address(read), address(fed), address(masked), common, address(own), len(own), columns,
            address(scored), address(ids), address(scores), address(forced_scores), capture.address,
        )  # fmt: skip
        if not self._held:
            raise RuntimeError("Too many forced passes have begun.")
        held, done = self._held.pop(), False
        try:
            for number, part in enumerate(_parts(len(source), len(inputs), config.encoder_layers)):
                if number:
                    yield
                capture.select(held, *part)
                self._call("forced_decode", *arguments)
            done = True
        finally:
            if not done and self._handle is not None:
                capture.select(held)
                self._library.attentive_forced_decode(self._handle, *arguments)
            self._held.append(held)
        if not choice.scores:
            forced_scores, ids, scores = forced_scores[:0], ids[:0], scores[:0]
        if (
            capture.vectors is not None
            and vectors_of is not None
            and vectors_of[0] == "cross"
            and self._key_shifts
        ):
            capture.vectors.key[:] += self._key_shifts[vectors_of[1]][vectors_of[2]]
        followed = choice.followed
        gains = (
            {} if followed is None else norm_parameters(config, followed, self._norms.__getitem__)
        )
        return AttentionMaps(
            capture.cross,
            capture.encoder,
            capture.decoder,
            forced_scores,
            ids.astype(np.int64),
            scores,
            value_products(capture.cross_values, self._outputs, masked_heads, choice.value_layers),
            capture.vectors,
            capture.forget_gates,
            outside,
            normalizers=capture.normalizers if choice.scores else None,
            tensors=None if followed is None else capture.tensors | gains,
            choice=choice,
        )

    def soft_maps(self, pairs: Sequence[Pair], choice: MapChoice) -> list[AttentionMaps]:
        """Returns the maps of several pairs as `attention_maps` without masked heads, in one
        batch."""
        config = self.config
        check_choice(config, choice)
        if choice.scores or choice.encoder != ():
            raise ValueError("Scores and maps of the encoder are those of single pairs.")
        for source, target in pairs:
            check_pair(config, source, target)
        maps: list[AttentionMaps] = []
        for first in range(0, len(pairs), MOST_CAPTURES):
            maps += self._captured(pairs[first : first + MOST_CAPTURES], choice)
        return maps

    def _captured(
        self, part: Sequence[Pair], choice: MapChoice, *, kept: bool = False
    ) -> list[AttentionMaps]:
        """Returns the maps of one call. With `kept` the sources are those that `read_words` kept,
        otherwise they are encoded."""
        config = self.config
        captures = [AttentionCapture(config, len(s), len(t) + 1, None, choice) for s, t in part]
        addresses = np.array([capture.address for capture in captures], dtype=np.uint64)
        read = _int32([*chain.from_iterable(source for source, _ in part)])
        fed = _int32(
            [*chain.from_iterable((config.decoder_start_id, *target) for _, target in part)]
        )
        self._call(
            "capture",
            len(part),
            addresses.ctypes.data,
            None if kept else address(read),
            address(fed),
        )
        return [self._unscored(capture, choice) for capture in captures]

    def linked_maps(
        self,
        pairs: Sequence[Pair],
        choice: MapChoice,
        sentences: Sequence[WordedSentence],
        wanted: Sequence[Sequence[int]],
    ) -> tuple[list[AttentionMaps], list[WordReading]]:
        """Returns what `soft_maps` and `read_words` do, of two sentences for each pair. Sources
        that are the first of their sentences are encoded once."""
        sources = [tuple(source) for source, _ in pairs]
        if len(pairs) > MOST_CAPTURES or sources != [sentence.ids for sentence in sentences[::2]]:
            return super().linked_maps(pairs, choice, sentences, wanted)
        for source, target in pairs:
            check_pair(self.config, source, target)
        check_choice(self.config, choice)
        readings = self.read_words(sentences, wanted, keep=True)
        return self._captured(pairs, choice, kept=True), readings

    def _unscored(self, capture: AttentionCapture, choice: MapChoice) -> AttentionMaps:
        ids, scores, forced_scores = self._candidates(0, 1)
        return AttentionMaps(
            capture.cross,
            capture.encoder,
            capture.decoder,
            forced_scores,
            ids.astype(np.int64),
            scores,
            value_products(capture.cross_values, self._outputs, (), choice.value_layers),
            forget_gates=capture.forget_gates,
            choice=choice,
        )

    def read_words(
        self,
        sentences: Sequence[WordedSentence],
        wanted: Sequence[Sequence[int]],
        *,
        keep: bool = False,
    ) -> list[WordReading]:
        """Returns for each sentence the states after the last encoder layer (S, d_model), and for
        each word the log-probabilities of its `wanted` tokens as first target token when
        cross-attention sees only that word. The sentences are one batch; with `keep` the first of
        each two is kept for `_captured`. Raises ValueError for invalid ids, lengths and words."""
        config = self.config
        for sentence, firsts in zip(sentences, wanted, strict=True):
            check_words(config, sentence, firsts)
        sizes = [
            (len(sentence.ids), len(sentence.words), len(firsts))
            for sentence, firsts in zip(sentences, wanted, strict=True)
        ]
        states = np.empty((sum(size[0] for size in sizes), config.d_model), dtype=np.float32)
        scores = np.empty(sum(size[1] * size[2] for size in sizes), dtype=np.float32)
        read = _int32([*chain.from_iterable(sentence.ids for sentence in sentences)])
        bounds = _int32(
            [bound for sentence in sentences for word in sentence.words for bound in word]
        )
        tokens = _int32([*chain.from_iterable(wanted)])
        counts = _int32([*chain.from_iterable(sizes)])
        self._call(
            "read_words", len(sizes), address(counts), address(read), address(bounds), config.decoder_start_id,
            address(tokens), config.d_model, address(states), address(scores), int(keep),
        )  # fmt: skip
        readings: list[WordReading] = []
        state = score = 0
        for length, words, count in sizes:
            beginnings = scores[score : score + words * count].reshape(words, count)
            readings.append(WordReading(states[state : state + length], beginnings))
            state, score = state + length, score + words * count
        return readings

    def multi_step(
        self, slots: Sequence[int], tokens: Sequence[int], steps: int, forbidden: Sequence[int] = ()
    ) -> list[StepOutput]:
        """Runs `steps` greedy steps, each row reading its own last token: ids and scores (B, 1) of
        each step. Outputs after a row's end of sentence are undefined. `forbidden` tokens are not
        written, but keep their part of the distribution."""
        rows, limit = len(slots), self.config.max_length
        if len(tokens) != rows or not 1 <= steps <= limit:
            raise ValueError(f"multi_step needs one token for each slot and 1 to {limit} steps.")
        ids = np.empty((steps, rows), dtype=np.int32)
        scores = np.empty((steps, rows), dtype=np.float32)
        where, read, never = self._slots(slots), _int32(tokens), _int32(sorted(set(forbidden)))
        if self.end in forbidden or len(never) >= self.config.vocab_size:
            raise ValueError(
                "Neither the end of sentence nor the whole vocabulary can be forbidden."
            )
        if rows:
            self._call(
                "multi_step", rows, address(where), address(read), steps, self.end, address(never), len(never), address(ids),
                address(scores),
            )  # fmt: skip
        wide = ids.astype(np.int64)
        return [StepOutput(wide[i, :, None], scores[i, :, None]) for i in range(steps)]

    def reorder(self, targets: Sequence[int], origins: Sequence[int]) -> None:
        """Slot targets[i] continues from what slot origins[i] held before the call."""
        to, of = self._slots(targets), self._slots(origins)
        if len(to) != len(of) or len(set(targets)) != len(targets):
            raise ValueError("reorder needs one origin for each of its distinct targets.")
        self._call("reorder", len(to), address(to), address(of))

    def free(self, slots: Sequence[int], *, broken: bool = False) -> None:
        """Frees the rows of the slots and their pages. `broken` has no effect: a row reads no
        position that it did not write."""
        where = self._slots(slots)
        self._call("free", len(where), address(where))

    @property
    def cache_bytes(self) -> int:
        """Bytes of keys and values."""
        return int(self._library.attentive_cache_bytes(self._handle))

    @property
    def pages_used(self) -> int:
        """Pages of 16 positions in use."""
        return int(self._library.attentive_pages_used(self._handle))

    def _load(self, tensors: Tensors, positions: Float32) -> None:
        int8 = self.precision == "int8"
        if int8:
            tensors, shifts = for_int8(self.config, tensors, positions)
            self._key_shifts = [
                shift.reshape(self.config.heads, self.config.head_dim) for shift in shifts
            ]
        for name, parts, bias in linears(self.config, tensors):
            weight = np.ascontiguousarray(
                parts[0] if len(parts) == 1 else np.concatenate(parts), dtype=np.float32
            )
            offset = None if bias is None else np.ascontiguousarray(bias, dtype=np.float32)
            if weight.ndim != 2 or (offset is not None and offset.shape != weight.shape[:1]):
                raise ValueError(
                    f"The tensors of {name} do not have the shapes of a matrix and its bias."
                )
            ranges = np.concatenate([row_ranges(part) for part in parts]) if int8 else None
            if name.endswith("cross_output"):
                self._outputs.append(weight.T.reshape(self.config.heads, self.config.head_dim, -1))
            self._call(
                "linear",
                name.encode(),
                address(weight),
                address(ranges),
                address(offset),
                *weight.shape,
            )
        for name, vector in vectors(self.config, tensors, positions):
            values = np.ascontiguousarray(vector, dtype=np.float32)
            self._call("vector", name.encode(), address(values), values.size)
            if "norm" in name:
                self._norms[name] = values.copy()
        self._call("resolve")

    def _candidates(self, rows: int, columns: int) -> tuple[Int32, Float32, Float32]:
        """Returns arrays for ids and scores (rows, columns) and for scores of forced tokens
        (rows)."""
        if columns < 1:
            raise ValueError("There must be at least 1 candidate.")
        shape = rows, columns
        return (
            np.empty(shape, dtype=np.int32),
            np.empty(shape, dtype=np.float32),
            np.empty(rows, dtype=np.float32),
        )

    def _check_forced(self, tokens: Sequence[int]) -> None:
        if max(tokens) >= self.config.vocab_size:
            raise ValueError(
                f"A forced token is outside the vocabulary of {self.config.vocab_size}."
            )

    def _masked(self, masked_heads: Sequence[HeadMask], rows: int) -> UInt8 | None:
        """Returns 1 for each masked head (rows, layers of encoder, self- and cross-attention, H);
        None if no head is masked."""
        if not any(masked_heads):
            return None
        if len(masked_heads) != rows:
            raise ValueError(f"{len(masked_heads)} masks for {rows} rows.")
        config = self.config
        first = {
            "encoder": 0,
            "decoder": config.encoder_layers,
            "cross": config.encoder_layers + config.decoder_layers,
        }
        masked = np.zeros(
            (rows, config.encoder_layers + 2 * config.decoder_layers, config.heads), dtype=np.uint8
        )
        for row, heads in enumerate(masked_heads):
            for kind, layer, head in heads:
                check_head(config, (kind, layer, head))
                masked[row, first[kind] + layer, head] = 1
        return masked

    def _slots(self, slots: Sequence[int]) -> Int32:
        where = _int32(slots)
        self._check_slots(slots)
        return where

    def _check_slots(self, slots: Sequence[int]) -> None:
        if len(slots) and not 0 <= min(slots) <= max(slots) < self.slots:
            raise ValueError(f"Slots are numbered 0 to {self.slots - 1}.")

    def _call(self, name: str, *arguments: object) -> None:
        if self._handle is None:
            raise CpuBackendError("The CPU backend is closed.")
        if getattr(self._library, f"attentive_{name}")(self._handle, *arguments):
            raise CpuBackendError(self._library.attentive_error().decode())


def _parts(source: int, queries: int, layers: int) -> Iterator[tuple[range, range]]:
    """Yields the encoder layers and the queries of each part of a forced pass."""
    step, rows = max(1, PART_TOKENS // source), max(LEAST_ROWS, PART_WORK // (source + queries))
    if layers <= step and queries <= rows:
        yield range(layers), range(queries)
        return
    for first in range(0, layers, step):
        yield range(first, min(first + step, layers)), range(0)
    for first in range(0, queries, rows):
        yield range(0), range(first, min(first + rows, queries))


def _int32(values: Sequence[int] | Sequence[Sequence[int]]) -> Int32:
    try:
        return np.array(values, dtype=np.int32)
    except OverflowError:
        raise ValueError("A token or slot is not a 32-bit integer.") from None
