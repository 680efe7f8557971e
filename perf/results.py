"""The folder of one benchmark run: raw samples as they come, then the summary and the tables. Runs on the load host."""

from __future__ import annotations

import json
import logging
import re
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from perf.environment import describe_environment, one_line
from perf.html_page import to_html
from perf.load.record import LoadRecord
from perf.plots import DARK, LIGHT, Bars, Plot, draw, paint, require_matplotlib
from perf.records import CpuSample, RequestRecord
from perf.tables import Table, to_markdown, to_text
from tritone.errors import TritoneError

LOG_FORMAT = "%(asctime)s %(levelname)s %(name)s: %(message)s"


class Page(NamedTuple):
    """What report.html has besides the tables: see perf.html_page."""

    plots: Sequence[Plot | Bars] = ()
    warnings: Sequence[str] = ()
    notes: Sequence[str] = ()


class ResultFolder:
    """Writes requests.jsonl, processes.jsonl, environment.json, summary.json, table.md, report.html and its plots as
    files; Triton's log is tritone.log.

    Samples are written at once, so that a run that is broken off loses none.
    """

    def __init__(
        self,
        path: Path,
        seed: int,
        engine_python: Path | None = None,
        has_triton: bool = True,
        is_resumed: bool = False,
    ) -> None:
        """Make the folder; if it is there it must be empty, or begun with `is_resumed`; TritoneError otherwise.

        `engine_python` is the Python that has the engine's libraries, if they matter, and `has_triton` says whether
        this machine's Triton is part of what is measured.
        """
        require_matplotlib()
        try:
            path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise TritoneError(f"the result folder {path} cannot be made: {error.strerror}") from error
        if any(path.iterdir()) and not is_resumed:
            raise TritoneError(f"the result folder {path} is not empty")
        self.path = path.absolute()
        logging.basicConfig(filename=self.path / "tritone.log", level=logging.INFO, format=LOG_FORMAT)
        self._environment = describe_environment(seed, engine_python, has_triton)
        self._write_json("environment.json", self._environment)

    def add_requests(self, run: Mapping[str, Any], requests: Sequence[RequestRecord | LoadRecord]) -> None:
        """Append the requests of one measured run; `run` says which it was."""
        self._append("requests.jsonl", [{**run, **request._asdict()} for request in requests])

    def add_rows(self, name: str, rows: Sequence[Mapping[str, Any]]) -> None:
        """Append to another file of raw samples."""
        self._append(name, rows)

    def add_cpu_samples(self, run: Mapping[str, Any], samples: Mapping[str, Sequence[CpuSample]]) -> None:
        """Append what the processes of one measured run had used when."""
        rows = [{**run, "process": name, **sample._asdict()} for name, found in samples.items() for sample in found]
        self._append("processes.jsonl", rows)

    def finish(
        self,
        summary: Mapping[str, Any],
        tables: Sequence[Table],
        report: Callable[[str], None],
        page: Page | None = None,
    ) -> None:
        """Write the figures and show them."""
        self._write_json("summary.json", summary)
        described = one_line(self._environment)
        (self.path / "table.md").write_text("\n".join([f"{described}\n", *map(to_markdown, tables)]), "utf-8")
        page = page or Page()
        title = f"Tritone: {self._environment['verb']}"
        drawings = [draw(plot) for plot in page.plots]
        for plot, drawing in zip(page.plots, drawings, strict=True):
            self._write_pictures(plot.title, drawing)
        html = to_html(title, self._environment, tables, drawings, page.warnings, page.notes)
        (self.path / "report.html").write_text(html, "utf-8")
        for table in tables:
            report(f"\n{to_text(table)}")
        report(f"\n{described}\nReport: {self.path / 'report.html'}\nRaw samples: {self.path}")

    def _write_pictures(self, title: str, drawing: str) -> None:
        name = "-".join(re.findall(r"[a-z0-9]+", title.lower()))
        for colors, suffix in ((LIGHT, ""), (DARK, "-dark")):
            (self.path / f"{name}{suffix}.svg").write_text(paint(drawing, colors), "utf-8")

    def _append(self, name: str, rows: Sequence[Mapping[str, Any]]) -> None:
        with (self.path / name).open("a", encoding="utf-8") as file:
            file.writelines(json.dumps(row) + "\n" for row in rows)

    def _write_json(self, name: str, content: Mapping[str, Any]) -> None:
        (self.path / name).write_text(json.dumps(content, indent=2) + "\n", "utf-8")


def default_folder(verb: str) -> Path:
    """results/<verb>-<local time>."""
    return Path("results") / f"{verb}-{time.strftime('%Y%m%d-%H%M%S')}"
