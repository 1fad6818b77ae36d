"""Batches made in several processes, for a device that trains faster than one process makes
them."""

from __future__ import annotations

from collections.abc import Generator, Iterator

from torch.utils.data import DataLoader, IterableDataset, get_worker_info

from training.data.batches import Batch, Batches


class BatchProcesses:
    """The same batches as those of `batches`, in the same order, made in `count` processes. Process
    k makes every `count`-th batch from the k-th on. What a process raises is raised here."""

    def __init__(self, batches: Batches, count: int) -> None:
        self._batches, self._count = batches, count

    def stream(
        self, epoch: int = 0, skip: int = 0
    ) -> Generator[tuple[int, int, Batch], None, None]:
        """Yields what `Batches.stream` yields. The processes end with the iterator."""
        part: IterableDataset[tuple[int, int, Batch]] = _Part(self._batches, epoch, skip)
        # The loader asks its processes in turn, so the order is that of one process.
        yield from DataLoader(part, batch_size=None, num_workers=self._count)


class _Part(IterableDataset[tuple[int, int, Batch]]):
    """The batches that this process makes."""

    def __init__(self, batches: Batches, epoch: int, skip: int) -> None:
        self._batches, self._epoch, self._skip = batches, epoch, skip

    def __iter__(self) -> Iterator[tuple[int, int, Batch]]:
        process = get_worker_info()
        if process is None:
            raise RuntimeError("This part of the batches is for a process of a DataLoader.")
        return self._batches.stream(self._epoch, self._skip, process.id, process.num_workers)
