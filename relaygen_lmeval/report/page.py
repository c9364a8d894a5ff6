"""The page of a report: one file, without a network, with tables, pictures and every text."""

from __future__ import annotations

import base64
import hashlib
import io
from collections.abc import Sequence
from dataclasses import asdict
from importlib.resources import files
from pathlib import Path

from relaygen_lmeval.errors import ConfigError
from relaygen_lmeval.report.compare import Comparison
from relaygen_lmeval.report.gather import Gathered
from relaygen_lmeval.report.pictures import Picture
from relaygen_lmeval.report.tables import legend, table_headings, table_row, title
from relaygen_lmeval.report.traces import ROLES, Traces, to_json, traces_of

MAX_BYTES = 3_000_000
ROOM = 60_000  # for the markup
_N_COLORS = 64


def render_page(
    gathered: Gathered,
    comparisons: Sequence[Comparison],
    pictures: Sequence[Picture],
    max_bytes: int = MAX_BYTES,
) -> str:
    """Make the page; texts that would make it too large are left out, and it says so.

    Args:
        gathered: The texts.
        comparisons: Of each task.
        pictures: Drawn before; they are embedded.
        max_bytes: Size of the page in UTF-8; that of its pictures comes first.

    Raises:
        ConfigError: jinja2 is not installed.
    """
    try:
        from jinja2 import Environment
    except ImportError as error:
        raise ConfigError(
            "the page needs jinja2: pip install 'relaygen-lmeval[report]', or ask for none with "
            "--no-page"
        ) from error
    embedded = {picture.path: data_url(picture.path) for picture in pictures}
    traces = traces_of(gathered, max_bytes - ROOM - sum(map(len, embedded.values())))
    names = [one.name for one in gathered.contestants]
    data = {"roles": ROLES, "policies": names, "tasks": [asdict(of) for of in traces]}
    script = _part("viewer.js")
    template = Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True)
    return template.from_string(_part("page.html.j2")).render(
        sections=[_section(comparison, pictures, embedded) for comparison in comparisons],
        notes=[*gathered.notes, *filter(None, map(_left_out, traces))],
        style=_part("page.css"),
        script=script,
        script_hash=base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
        data=to_json(data),
    )


def _section(
    comparison: Comparison, pictures: Sequence[Picture], embedded: dict[Path, str]
) -> dict[str, object]:
    return {
        "title": title(comparison),
        "headings": table_headings(comparison),
        "rows": [table_row(line) for line in comparison.lines],
        "legend": legend(comparison),
        "pictures": [(p, embedded[p.path]) for p in pictures if p.task == comparison.task],
    }


def _left_out(traces: Traces) -> str:
    n = len(traces.problems)
    if n == traces.n_problems:
        return ""
    return (
        f"{traces.task}: this page has room for the texts of {n} of {traces.n_problems} problems; "
        "the journals have all"
    )


def data_url(path: Path) -> str:
    """The picture with fewer colours, which takes a third of the room."""
    from PIL import Image  # comes with matplotlib, which drew it

    small = io.BytesIO()
    with Image.open(path) as image:
        # Its other methods merge the colours of two policies.
        few = image.convert("RGB").quantize(_N_COLORS, method=Image.Quantize.FASTOCTREE)
        few.save(small, "PNG", optimize=True)
    return f"data:image/png;base64,{base64.b64encode(small.getvalue()).decode()}"


def _part(name: str) -> str:
    return files("relaygen_lmeval.report").joinpath(name).read_text(encoding="utf-8")
