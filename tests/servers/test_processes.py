"""Several processes of the harness at the same servers: of runs of their own, and of one."""

from __future__ import annotations

from tests.runs.command import exit_code, requests, samples, start, start_many

TASK = ("--tasks", "relaygen_arithmetic", "--limit", "5")


def test_several_runs_ask_the_same_servers_at_once(serve, tmp_path, story):
    url = serve().url
    options = {"engine": "server", "base_url": url, "small_base_url": url}
    folders = [tmp_path / name for name in ("a", "b", "c")]

    runs = [start(folder, *TASK, **options) for folder in folders]

    assert [exit_code(run) for run in runs] == [0, 0, 0]
    for folder in folders:
        texts = [record["text"] for record in requests(folder)]
        assert texts == [story.text[: len(texts[0])]] * 5


def test_the_processes_of_one_run_share_its_requests(serve, tmp_path):
    url = serve().url
    options = {"engine": "server", "base_url": url, "small_base_url": url}
    assert exit_code(start(tmp_path / "one", *TASK, **options)) == 0

    two = start_many(tmp_path / "two", 2, *TASK, **options)

    assert [exit_code(process) for process in two] == [0, 0]
    assert sorted(record["doc_id"] for record in requests(tmp_path / "two")) == [0, 1, 2, 3, 4]
    assert samples(tmp_path / "two") == samples(tmp_path / "one")
