"""Finds the cue file of a pair: the one that is named, the shipped one, or the paper's."""

from __future__ import annotations

import difflib
import logging
from collections.abc import Mapping
from pathlib import Path

from relaygen_lmeval.cuefile.schema import CueFile, read_cue_file
from relaygen_lmeval.errors import CueFileError
from relaygen_lmeval.tasks import cues_path

log = logging.getLogger(__name__)

FALLBACK = "qwen3-32b__qwen3-1.7b"
SHORT_NAMES = {"all": "all_candidates"}


def cue_file_for(spec: str, large: str, small: str) -> CueFile:
    """Find and read the cues of a run.

    Args:
        spec: `auto`, or what `find_cue_file` takes.
        large: Name or folder of the large model.
        small: The same of the small one.

    Returns:
        For `auto` the shipped file of that pair; without one, the paper's cues for Qwen3,
        with a warning: they were not measured on this pair. A warning as well where the file
        was measured on other weights or another tokenizer than these folders hold.

    Examples:
        >>> cue_file_for("auto", "models/Qwen3-32B", "Qwen/Qwen3-1.7B").name
        'qwen3-32b__qwen3-1.7b'
    """
    if spec != "auto":
        return read_cue_file(find_cue_file(spec))
    for path in list_cue_files():
        cue_file = read_cue_file(path)
        if cue_file.match == "word" and _is_pair(cue_file, large, small):
            _check_models(cue_file, {"large": large, "small": small})
            return cue_file
    log.warning(
        "no cue file is shipped for %s and %s: %s is taken, which was found for other models; "
        "name one with cues=, or make one: %s",
        large,
        small,
        FALLBACK,
        calibrate_command(large, small, "cues/mine.json"),
    )
    return read_cue_file(find_cue_file(FALLBACK))


def calibrate_command(large: str, small: str, output: str) -> str:
    """Give the command that finds the cues of a pair."""
    return (
        f"relaygen calibrate --model_args pretrained={large},small={small} --tasks TASK "
        f"--output {output}"
    )


def find_cue_file(spec: str) -> Path:
    """Find a cue file by its path or, for a shipped one, its name.

    Args:
        spec: A path, or a name like `demo` or `demo.json`; `all` is every candidate word.

    Returns:
        The path of a file that exists.

    Raises:
        CueFileError: If there is none; the message lists the shipped names.

    Examples:
        >>> find_cue_file("demo").name
        'demo.json'
    """
    name = spec.removesuffix(".json")
    for path in (Path(spec), cues_path() / f"{SHORT_NAMES.get(name, name)}.json"):
        if path.is_file():
            return path
    shipped = [path.stem for path in list_cue_files()]
    nearest = difflib.get_close_matches(name, shipped, n=1, cutoff=0.3)
    hint = f"did you mean '{nearest[0]}'? " if nearest else ""
    raise CueFileError(
        f"unknown cue file '{spec}': it is neither a path nor the name of a shipped file; "
        f"{hint}Shipped: {', '.join(shipped)}"
    )


def list_cue_files() -> list[Path]:
    """Give the shipped cue files, sorted by name."""
    return sorted(cues_path().glob("*.json"))


def _check_models(cue_file: CueFile, names: Mapping[str, str]) -> None:
    """Warn where a folder holds other files than the cues were measured with.

    The fingerprint of a folder covers its tokenizer. Of a hub name nothing is known before the
    model is loaded.
    """
    from relaygen_lmeval.provenance import fingerprint  # which itself describes cue files

    measured = cue_file.source.get("models")
    for role, name in names.items():
        theirs = measured.get(role) if isinstance(measured, dict) else None
        wanted = theirs.get("sha") if isinstance(theirs, dict) else None
        if not isinstance(wanted, str) or not wanted.startswith("local-"):
            continue
        folder = Path(name).expanduser()
        if folder.is_dir() and wanted != f"local-{fingerprint(folder)}":
            log.warning(
                "cue file %s was measured on other files of the %s model than %s holds (%s): its "
                "cues may be wrong for these weights; make new ones: %s",
                cue_file.name,
                role,
                name,
                wanted,
                calibrate_command(names["large"], names["small"], "cues/mine.json"),
            )


def _is_pair(cue_file: CueFile, large: str, small: str) -> bool:
    wanted = (cue_file.large, cue_file.small)
    return all(_names(model, name) for model, name in zip(wanted, (large, small), strict=True))


def _names(model: str, name: str) -> bool:
    """Whether a hub name or a folder is the model of a cue file; owners may differ."""
    n_parts = 2 if model.startswith("demo/") else 1  # `large` alone could be anybody's
    ours, theirs = Path(model).parts[-n_parts:], Path(name).parts[-n_parts:]
    return [part.lower() for part in ours] == [part.lower() for part in theirs]
