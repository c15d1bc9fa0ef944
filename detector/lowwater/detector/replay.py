"""Replay: recorded files through the same pipeline as live, in two passes over reduced readings.

The first pass reads and reduces everything and learns the names that a trace tells late; the readings are then
sorted by event time, on disk where they are many, so that the order of lines and files does not matter.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from lowwater.collectors.dialects.base import ReadContext
from lowwater.collectors.reading import Reading
from lowwater.collectors.tokens import Hasher
from lowwater.detector.config import DetectorConfig
from lowwater.detector.directory import Directory
from lowwater.detector.ingest import Ingest
from lowwater.detector.pipeline import Output, Pipeline
from lowwater.detector.readers.base import Problems
from lowwater.detector.readers.detect import FileReport, read_paths
from lowwater.detector.sorting import sort_readings

__all__ = ["Replay"]


@dataclass(slots=True)
class Replay:
    """One replay of some files.

    Attributes:
        problems: what could not be read.
        files: what was found per file.
        ingest: counts of what was read.
        directory: names that the traces told.
        pipeline: None until the replay has run.
    """

    config: DetectorConfig = field(default_factory=DetectorConfig)
    problems: Problems = field(default_factory=Problems)
    files: list[FileReport] = field(default_factory=list)
    directory: Directory = field(default_factory=Directory)
    ingest: Ingest = field(init=False)
    pipeline: Pipeline = field(init=False)

    def __post_init__(self) -> None:
        # Equality of hashes is all that matters and none is printed: a fixed key keeps replays identical.
        context = ReadContext(hasher=Hasher(b"lowwater replay"), is_retriever=self.config.is_retriever)
        self.ingest = Ingest(context)

    def readings(
        self,
        paths: Sequence[str],
        *,
        format_name: str | None = None,
        on_progress: Callable[[str, int], None] | None = None,
        observe: Callable[[Reading], None] | None = None,
    ) -> Iterator[Reading]:
        """Read and reduce the files; yields readings in the order of the files."""
        items = read_paths(
            paths, self.ingest.context, self.problems, format=format_name, on_progress=on_progress, reports=self.files
        )
        for reading in self.ingest.readings(items):
            if observe is not None:
                observe(reading)
            yield reading

    def run(
        self,
        paths: Sequence[str],
        *,
        format_name: str | None = None,
        on_progress: Callable[[str, int], None] | None = None,
        observe: Callable[[Reading], None] | None = None,
        through: Callable[[Iterator[Reading]], Iterator[Reading]] | None = None,
    ) -> Iterator[Output]:
        """Read, sort and process the files; yields ledger entries, findings and pool reports in event-time order.

        Args:
            paths: files, folders or ``-`` for standard input.
            format_name: force a format instead of detecting it.
            on_progress: called with the file and the bytes read of it.
            observe: called with every reading, before sorting.
            through: what the sorted readings pass on their way to the pipeline.

        Raises:
            InputError: a path does not exist or cannot be opened, or the format name is unknown.
        """

        def noted() -> Iterator[Reading]:
            for reading in self.readings(paths, format_name=format_name, on_progress=on_progress, observe=observe):
                self.directory.note(reading)
                yield reading

        self.pipeline = Pipeline(self.config, directory=self.directory)
        ordered = sort_readings(noted())
        yield from self.pipeline.run(ordered if through is None else through(ordered))
