"""Whatever a file, a command line or a server says, it is read or refused by an error of ours."""

from __future__ import annotations

import json
import string
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from lm_eval.utils import simple_parse_args_string

from relaygen_lmeval.core.types import Piece, RelayRequest, Role
from relaygen_lmeval.cuefile import read_cue_file
from relaygen_lmeval.cuefile.schema import _FIELDS
from relaygen_lmeval.engines.server.client import Unreadable
from relaygen_lmeval.engines.server.wire import read_reply
from relaygen_lmeval.errors import ConfigError, CueFileError, JournalError
from relaygen_lmeval.journal import Label, asked
from relaygen_lmeval.journal.resume import read_earlier
from relaygen_lmeval.options.config import RelayConfig
from relaygen_lmeval.relay import parse_options


def fuzz(n_cases: int) -> Any:
    """The same cases each time; 5,000 in all."""
    return settings(
        max_examples=n_cases,
        deadline=None,
        derandomize=True,
        database=None,
        suppress_health_check=list(HealthCheck),
    )


NESTED = [
    [],
    {},
    [None],
    [{}],
    [[1]],
    {"a": None},
    [None, {}],
    {"role": [], "": {}},
    [1, "x"],
    ["So"],
]
anything = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=6)
    | st.sampled_from(NESTED)
)


def objects(likely: dict[str, Any]) -> st.SearchStrategy[dict[str, Any]]:
    """Objects that are nearly right: some fields wrong, some missing, some of no name known."""
    return st.builds(
        lambda wrong, gone, more: {
            **{k: v for k, v in likely.items() if k not in gone},
            **wrong,
            **more,
        },
        st.dictionaries(st.sampled_from(sorted(likely)), anything, max_size=2),
        st.sets(st.sampled_from(sorted(likely)), max_size=1),
        st.dictionaries(st.text(max_size=4), anything, max_size=1),
    )


def lines(*kinds: dict[str, Any]) -> st.SearchStrategy[bytes]:
    """A file of lines, torn and binary ones among them."""
    right = st.sampled_from(kinds).flatmap(objects).map(lambda o: json.dumps(o).encode())
    return st.lists(right | st.binary(max_size=12), max_size=3).map(b"\n".join)


@pytest.fixture(scope="module")
def file(tmp_path_factory: Any) -> Path:
    return Path(tmp_path_factory.mktemp("fuzz") / "journal.jsonl")


CUE_FILE = {
    "schema": 1,
    "name": "a",
    "large": "b",
    "small": "c",
    "match": "word",
    "boundaries": "unicode",
    "cues": ["So", "Thus,"],
    "statistics": {"So": {"occurrences": 3}},
    "source": {"rule": "ci"},
}


@fuzz(1000)
@given(content=objects(CUE_FILE).map(lambda o: json.dumps(o).encode()) | st.binary(max_size=40))
def test_cue_files(file, content):
    assert set(CUE_FILE) == set(_FIELDS)
    path = file.with_name("cues.json")
    path.write_bytes(content)
    try:
        cue_file = read_cue_file(path)
    except CueFileError as error:
        said = str(error)
    else:
        said = f"{path} is read"
        assert cue_file.table().cues == cue_file.cues
        assert len(cue_file.sha256) == 64
    assert str(path) in said


HEADER = {"kind": "header", "schema": 1, "run": 1, "config": {"policy": "relay"}, "models": []}
REQUEST = {
    "kind": "request",
    "run": 1,
    **asked(RelayRequest(0, dict.fromkeys(Role, Piece("Q")), 9), Label("t")),
    "flags": [],
    "n_tokens": 3,
    "answer": "4",
}


@fuzz(1000)
@given(first=objects(HEADER), content=lines(HEADER, REQUEST))
def test_journals(file, first, content):
    file.write_bytes(json.dumps(first).encode() + b"\n" + content)
    try:
        earlier = read_earlier(file.parent, HEADER)
    except JournalError as error:
        said = str(error)
    else:
        said = f"{file} is read"
        assert all(isinstance(name, str) for name in earlier.finished)
    assert str(file) in said


names = st.sampled_from(
    sorted(
        [*RelayConfig.__dataclass_fields__, "large", "dtype", "small_dtype", "threshold", "like"]
    )
)
words = st.text(string.printable + "é今\u202e\x00", max_size=12)
values = words | st.sampled_from(
    [
        "1",
        "-1",
        "1e9",
        "True",
        "None",
        "auto",
        "auto:0",
        "server",
        "http://a:b@c",
        "http://[::1",
        "vllm",
        *("small", "relay", "entropy", "a.b:C", "../x", "/", "os:path", "local", "~", "\x00"),
    ]
)


@fuzz(2000)
@given(st.lists(st.tuples(names | words, values), max_size=4))
def test_model_args(pairs):
    text = ",".join(f"{name}={value}" for name, value in pairs)
    try:
        options = simple_parse_args_string(text)
    except ValueError:  # the harness's own, of a text that is no list of options
        return
    try:
        config = parse_options(options)
    except ConfigError as error:
        said = str(error)
    else:
        said = repr(config)
    assert said


CHOICE = {"text": " So", "token_ids": [5, 6], "finish_reason": "stop", "stop_reason": None}
REPLY = {
    "choices": [CHOICE],
    "usage": {"completion_tokens": 2, "prompt_tokens": 9},
    "metrics": {"queue_time_ms": 1.0, "time_to_first_token_ms": 2, "generation_time_ms": 3},
    "timings": {"prompt_ms": 1.0, "predicted_ms": 2.0},
    "__verbose": {"tokens": [5, 6], "stop_type": "word", "tokens_predicted": 2},
}


@st.composite
def replies(draw: Any) -> Any:
    reply = draw(objects(REPLY) | anything)
    if isinstance(reply, dict) and reply.get("choices") == [CHOICE]:
        reply["choices"] = [draw(objects(CHOICE))]
    return reply


@fuzz(1000)
@given(data=replies(), stops=st.lists(st.text(max_size=3), max_size=2))
def test_server_replies(data, stops):
    try:
        reply = read_reply(data, stops)
    except Unreadable:  # the client asks again, then it is a ServerError
        return
    assert isinstance(reply.text, str)
    assert reply.ids is None or all(type(i) is int for i in reply.ids)
    assert reply.ended in (None, "eos", "stop", "length")
    assert reply.server_s is None or reply.server_s >= 0
