"""Cue files: what is written is read back, and what is wrong is refused by name."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from relaygen_lmeval.core.cues import CueTable
from relaygen_lmeval.cuefile import (
    CueFile,
    candidate_forms,
    cue_file_for,
    find_cue_file,
    list_cue_files,
    read_cue_file,
    write_cue_file,
)
from relaygen_lmeval.errors import CueFileError

FILE = CueFile(
    name="pair",
    large="org/large",
    small="org/small",
    match="word",
    cues=("So,", "因此", "So "),
    statistics={"So,": {"n": 3, "mean_margin": 0.1}},
    source={"seed": 0},
)
PAIRS = {"qwen3-32b__qwen3-1.7b": 28, "r1-distill-qwen-32b__r1-distill-qwen-1.5b": 25}


def _content() -> dict:
    return {
        "schema": 1,
        "name": "pair",
        "large": "org/large",
        "small": "org/small",
        "match": "word",
        "cues": ["So,", "Thus"],
        "statistics": {},
        "source": {},
    }


def _refusal(path: Path, content: object) -> str:
    path.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
    with pytest.raises(CueFileError) as caught:
        read_cue_file(path)
    assert str(path) in str(caught.value)
    assert "wanted:" in str(caught.value)
    return str(caught.value)


def test_round_trip_is_equal_and_its_bytes_too(tmp_path: Path):
    write_cue_file(FILE, tmp_path / "a.json")
    read = read_cue_file(tmp_path / "a.json")
    write_cue_file(read, tmp_path / "b.json")

    assert read == FILE
    assert (tmp_path / "a.json").read_bytes() == (tmp_path / "b.json").read_bytes()
    assert (tmp_path / "a.json").read_bytes().endswith(b"}\n")
    assert "因此" in (tmp_path / "a.json").read_text(encoding="utf-8")


@given(
    st.lists(st.text(min_size=1).filter(str.strip), min_size=1, unique=True),
    st.sampled_from(["word", "substring"]),
)
def test_any_cues_survive_a_round_trip(tmp_path_factory: pytest.TempPathFactory, cues, match):
    path = tmp_path_factory.mktemp("cues") / "any.json"
    cue_file = replace(FILE, cues=tuple(cues), match=match)
    try:
        write_cue_file(cue_file, path)
    except UnicodeEncodeError:  # half of a surrogate pair is no text
        return

    assert read_cue_file(path) == cue_file


def test_hash_is_of_the_content_and_not_of_its_layout(tmp_path: Path):
    write_cue_file(FILE, tmp_path / "a.json")
    loose = json.dumps(json.loads((tmp_path / "a.json").read_bytes()))
    (tmp_path / "b.json").write_text(loose, encoding="utf-8")

    assert read_cue_file(tmp_path / "b.json").sha256 == FILE.sha256
    assert replace(FILE, cues=("So",)).sha256 != FILE.sha256


def test_table_carries_the_cues_and_the_rule():
    assert FILE.table() == CueTable(("So,", "因此", "So "), "word")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"schema": 2}, "schema 2"),
        ({"schema": True}, "schema True"),
        ({"name": " "}, "' ' as 'name'"),
        ({"large": 3}, "3 as 'large'"),
        ({"match": "regex"}, "unknown match rule 'regex'"),
        ({"match": ["word"]}, "unknown match rule ['word']"),
        ({"cues": []}, "an empty list as 'cues'"),
        ({"cues": "So"}, "a text as 'cues'"),
        ({"cues": ["So", ""]}, "'' as cue 1"),
        ({"cues": ["So", " \n"]}, "as cue 1"),
        ({"cues": [7]}, "7 as cue 0"),
        ({"cues": ["So", "Thus", "So"]}, "the cue 'So' twice"),
        ({"statistics": []}, "a list as statistics"),
        ({"statistics": {"So": 1}}, "a number as statistics of 'So'"),
        ({"source": None}, "null as source"),
        ({"sources": {}}, "unknown field 'sources'"),
        ({"zzz": {}}, "put it into 'source'"),
    ],
)
def test_a_wrong_field_is_refused(tmp_path: Path, change: dict, said: str):
    assert said in _refusal(tmp_path / "wrong.json", {**_content(), **change})


@pytest.mark.parametrize("name", ["schema", "name", "large", "small", "match", "cues"])
def test_a_missing_field_is_refused(tmp_path: Path, name: str):
    content = _content()
    del content[name]

    assert name in _refusal(tmp_path / "short.json", content)


@pytest.mark.parametrize(
    ("text", "said"), [("{", "is not JSON"), ('["So"]', "holds a list"), ("", "is not JSON")]
)
def test_what_is_no_json_object_is_refused(tmp_path: Path, text: str, said: str):
    assert said in _refusal(tmp_path / "wrong.json", text)


def test_a_file_that_is_not_utf8_is_refused(tmp_path: Path):
    (tmp_path / "latin.json").write_bytes(b'{"name": "\xe9"}')

    with pytest.raises(CueFileError, match="in UTF-8"):
        read_cue_file(tmp_path / "latin.json")


def test_a_missing_file_is_refused(tmp_path: Path):
    with pytest.raises(CueFileError, match="cannot be read"):
        read_cue_file(tmp_path / "none.json")


def test_statistics_and_source_may_be_left_out(tmp_path: Path):
    content = {k: v for k, v in _content().items() if k not in ("statistics", "source")}
    (tmp_path / "short.json").write_text(json.dumps(content), encoding="utf-8")

    assert read_cue_file(tmp_path / "short.json").cues == ("So,", "Thus")


@pytest.mark.parametrize("path", list_cue_files(), ids=lambda path: path.stem)
def test_every_shipped_file_is_read_and_is_as_we_would_write_it(path: Path, tmp_path: Path):
    cue_file = read_cue_file(path)
    write_cue_file(cue_file, tmp_path / "again.json")

    assert cue_file.name == path.stem
    assert cue_file.source
    assert (tmp_path / "again.json").read_bytes() == path.read_bytes()


@pytest.mark.parametrize(("name", "count"), PAIRS.items())
def test_the_lists_of_the_paper_are_whole(name: str, count: int):
    word = read_cue_file(find_cue_file(name))
    substring = read_cue_file(find_cue_file(f"{name}_substring"))

    assert len(word.cues) == count
    assert "So " in word.cues
    assert (word.match, substring.match) == ("word", "substring")
    assert substring.cues == word.cues


def test_all_candidates_are_the_forms_of_the_25_words():
    forms = read_cue_file(find_cue_file("all")).cues

    assert forms == candidate_forms()
    assert len({form.rstrip(",").lower() for form in forms}) == 25
    assert len(set(forms)) == 100


@pytest.mark.parametrize("spec", ["demo", "demo.json"])
def test_a_shipped_file_is_found_by_name(spec: str):
    assert find_cue_file(spec).name == "demo.json"


def test_a_path_goes_before_a_shipped_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    write_cue_file(FILE, "demo.json")

    assert read_cue_file(find_cue_file("demo.json")) == FILE
    assert read_cue_file(find_cue_file("demo")) != FILE


def test_an_unknown_name_lists_the_shipped_ones_and_the_nearest():
    with pytest.raises(CueFileError) as caught:
        find_cue_file("qwen3-32b")

    assert "did you mean 'qwen3-32b__qwen3-1.7b'?" in str(caught.value)
    assert all(path.stem in str(caught.value) for path in list_cue_files())


@pytest.mark.parametrize(
    ("large", "small", "name"),
    [
        ("Qwen/Qwen3-32B", "Qwen/Qwen3-1.7B", "qwen3-32b__qwen3-1.7b"),
        ("/models/qwen3-32b/", "mirror/Qwen3-1.7B", "qwen3-32b__qwen3-1.7b"),
        ("/x/relaygen_lmeval/demo/large", "/x/relaygen_lmeval/demo/small", "demo"),
    ],
)
def test_auto_finds_the_file_of_the_pair(
    large: str, small: str, name: str, caplog: pytest.LogCaptureFixture
):
    assert cue_file_for("auto", large, small).name == name
    assert not caplog.records


@pytest.mark.parametrize("large", ["Qwen/Qwen3-14B", "/models/large"])
def test_auto_warns_where_no_file_is_for_the_pair(large: str, caplog: pytest.LogCaptureFixture):
    assert cue_file_for("auto", large, "/models/small").name == "qwen3-32b__qwen3-1.7b"
    assert f"no cue file is shipped for {large} and /models/small" in caplog.text


def test_a_named_file_serves_any_pair():
    assert cue_file_for("demo", "a/b", "c/d").name == "demo"
