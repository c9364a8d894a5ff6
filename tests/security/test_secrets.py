"""Keys reach no log, names make no paths, and models bring no code of their own unasked."""

from __future__ import annotations

import ast
import inspect
import json
from pathlib import Path
from typing import Any

import pytest
from lm_eval.models.huggingface import HFLM
from transformers import AutoConfig

import relaygen_lmeval
from relaygen_lmeval.demo import demo_path
from relaygen_lmeval.engines.server.client import Client
from relaygen_lmeval.errors import ConfigError, EngineError
from relaygen_lmeval.harness.model import RelayLM, log_dir
from relaygen_lmeval.models.pair import load_pair
from relaygen_lmeval.options.checks import without_secrets
from relaygen_lmeval.options.config import RelayConfig
from relaygen_lmeval.provenance import describe_config
from relaygen_lmeval.relay import parse_options

PACKAGE = Path(relaygen_lmeval.__file__).parent
SECRET = "hf_dontTellAnyone"

# What turns data into code. Names of modules, of functions, and of methods by their module.
CODE_FROM_DATA = {"pickle", "cPickle", "dill", "marshal", "shelve", "joblib", "cloudpickle"}
CALLS = {"eval", "exec", "compile", "torch.load", "yaml.load", "os.system", "numpy.load", "np.load"}


@pytest.mark.parametrize("path", sorted(PACKAGE.rglob("*.py")), ids=lambda p: p.stem)
def test_data_is_never_code(path):
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            assert not {alias.name.split(".")[0] for alias in node.names} & CODE_FROM_DATA
        elif isinstance(node, ast.ImportFrom):
            assert (node.module or "").split(".")[0] not in CODE_FROM_DATA
        elif isinstance(node, ast.Call):
            assert ast.unparse(node.func) not in CALLS
            shell = [k for k in node.keywords if k.arg == "shell"]
            assert not any(ast.unparse(k.value) == "True" for k in shell)


def test_a_journal_and_results_hold_no_token(tmp_path, caplog):
    lm = RelayLM(token=SECRET, small_token=f"{SECRET}2", log_dir=str(tmp_path))
    told = json.dumps(lm.get_model_info(), default=str)
    lm.close()

    written = "".join(p.read_text(encoding="utf-8") for p in tmp_path.rglob("*") if p.is_file())
    assert "***" in written
    assert "set HF_TOKEN in the environment instead" in caplog.text
    assert SECRET not in written + told + caplog.text


def test_keys_of_servers_are_left_out_of_what_is_described():
    config = RelayConfig(
        "a",
        "b",
        base_url=f"http://me:{SECRET}@host:1/v1?key={SECRET}",
        server_args=f"--api-key {SECRET} --max-model-len 9 --hf-token={SECRET}",
    )

    described = describe_config(config)

    assert SECRET not in str(described)
    assert described["base_url"] == "http://***@host:1/v1"
    assert "--max-model-len 9" in described["server_args"]


@pytest.mark.parametrize(
    "url", [f"http://me:{SECRET}@host", f"me:{SECRET}@host", f"ftp://me:{SECRET}@host/?k={SECRET}"]
)
def test_an_address_with_a_password_is_refused_without_repeating_it(url):
    with pytest.raises(ConfigError) as caught:
        Client(url, timeout_s=1, max_retries=0, n_connections=1)

    assert SECRET not in str(caught.value)
    assert SECRET not in str(without_secrets(url))


@pytest.mark.parametrize(
    "policy", ["relay", "../../etc:Passwd", "a/b\\c:D\x00\n", ".hidden", "x" * 500, "\u202eevil"]
)
def test_a_folder_is_named_without_paths_in_it(policy):
    config = RelayConfig("/tmp/../a b", "o/n\x07ame", policy=policy)

    folder = log_dir(config)

    assert folder.parent == Path("relaygen_logs")
    assert len(folder.name) <= 120
    assert folder.name.isprintable()
    assert ".." not in folder.parts
    assert not set(folder.name) & set("/\\:\x00\n ")


def test_remote_code_is_off_and_goes_to_both_models_when_asked():
    plain = parse_options({})
    asked = parse_options({"trust_remote_code": True})

    for options in (plain.large_options, plain.small_options):
        assert "trust_remote_code" not in options
    assert inspect.signature(HFLM.__init__).parameters["trust_remote_code"].default is False
    assert asked.large_options["trust_remote_code"] is asked.small_options["trust_remote_code"]
    assert asked.small_options["trust_remote_code"] is True


def test_a_model_that_brings_code_is_refused_and_its_code_not_run(tmp_path):
    (tmp_path / "configuration_evil.py").write_text(
        f"from pathlib import Path\nPath({str(tmp_path / 'ran')!r}).touch()\n"
        "from transformers import PretrainedConfig\n"
        "class EvilConfig(PretrainedConfig):\n    model_type = 'evil'\n"
    )
    told: dict[str, Any] = {
        "model_type": "evil",
        "architectures": ["EvilForCausalLM"],
        "auto_map": {"AutoConfig": "configuration_evil.EvilConfig"},
    }
    (tmp_path / "config.json").write_text(json.dumps(told))
    options = {"pretrained": str(tmp_path), "small": str(demo_path() / "small")}

    with pytest.raises((ConfigError, EngineError), match="trust_remote_code"):
        load_pair(parse_options(options))
    assert not (tmp_path / "ran").exists()

    AutoConfig.from_pretrained(tmp_path, trust_remote_code=True)  # it would have
    assert (tmp_path / "ran").exists()
