"""Policies by name: ours, a user's module, and those of an installed package."""

from __future__ import annotations

import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

import relaygen_lmeval
from relaygen_lmeval.core.policies import POLICIES
from relaygen_lmeval.errors import ConfigError
from relaygen_lmeval.options.policy_choice import find_policy, own_options
from relaygen_lmeval.relay import Relay, parse_options

PAGE = (Path(relaygen_lmeval.__file__).parent / "POLICIES.md").read_text(encoding="utf-8")


def example(language: str, n: int = 0) -> str:
    blocks: list[str] = re.findall(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)
    return blocks[n]


def test_the_page_names_every_policy_and_option():
    table = PAGE.split("## Your own")[0]

    for name, kind in POLICIES.items():
        assert f"`{name}`" in table
        for option in own_options(kind):
            assert f"`{option}" in table, (name, option)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("entropi", "did you mean 'entropy'"),
        ("zzz", "is not one of relay, .*spec_reason. Your own is named as"),
        ("no.such.module:Policy", "module 'no.such.module' cannot be imported"),
        ("json:Policy", "'json' has nothing of that name"),
        ("json:JSONDecoder", "'json' names no policy"),
    ],
)
def test_names_that_are_none_are_refused(name, said):
    with pytest.raises(ConfigError, match=said):
        find_policy(name)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"policy": "relay", "threshold": 1}, "unknown option 'threshold'"),
        ({"policy": "margin", "treshold": 1}, "did you mean 'threshold'"),
    ],
)
def test_options_belong_to_their_policy(options, said):
    with pytest.raises(ConfigError, match=said):
        parse_options(options)


def test_values_that_a_policy_refuses_name_it(pair):
    with pytest.raises(ConfigError, match="policy=margin: threshold=7 must be"):
        Relay(parse_options({"policy": "margin", "threshold": 7}), pair, None)


def test_a_journal_without_a_relay_gives_no_lengths(tmp_path, pair):
    (tmp_path / "journal.jsonl").write_text('{"kind": "header"}\n')

    with pytest.raises(ConfigError, match="no segments of both models"):
        Relay(parse_options({"policy": "random", "like": str(tmp_path)}), pair, None)


@pytest.mark.slow
@pytest.mark.skipif(find_spec("hatchling") is None, reason="hatchling, the builder, is missing")
def test_a_package_brings_the_policy_of_the_page(tmp_path):
    """Built and installed from the page's own words, then named in both ways."""
    code = tmp_path / "src" / "my_pkg"
    code.mkdir(parents=True)
    (code / "__init__.py").touch()
    (code / "my_module.py").write_text(example("python"))
    (tmp_path / "src" / "pyproject.toml").write_text(
        '[build-system]\nrequires = ["hatchling"]\nbuild-backend = "hatchling.build"\n'
        '[project]\nname = "my-pkg"\nversion = "1"\n' + example("toml")
    )
    site = tmp_path / "site"
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index"]
    pip += ["--no-build-isolation", "--target", str(site), str(tmp_path / "src")]
    subprocess.run(pip, check=True, capture_output=True, text=True)
    script = (
        f"import sys; sys.path.insert(0, {str(site)!r})\n"
        "from relaygen_lmeval import Relay\n"
        "for name in ('plan_first', 'my_pkg.my_module:PlanFirst'):\n"
        "    relay = Relay.from_pretrained(policy=name, n_sentences=1)\n"
        "    done = relay.generate(['Tom has 3 pens. He buys 4 more. How many has he?'])[0]\n"
        "    print(relay.policy.name, [s.role.value for s in done.segments][:2])\n"
        "    relay.close()\n"
    )
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)

    assert run.stdout.splitlines() == ["plan_first ['large', 'small']"] * 2
