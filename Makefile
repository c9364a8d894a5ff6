PYTHON ?= python3
BIN := .venv/bin
# A requirement to install ahead of the package, for example a certain build of torch.
PIP_TORCH ?=

.PHONY: .venv test lint eval clean

.venv: .venv/installed

.venv/installed: pyproject.toml relaygen_lmeval.pth
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(if $(PIP_TORCH),$(BIN)/python -m pip install '$(PIP_TORCH)')
	$(BIN)/python -m pip install --editable '.[test,report]'
	touch $@

test: .venv
	$(BIN)/pytest

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

clean:
	rm -rf build dist results relaygen_logs .mypy_cache .pytest_cache .ruff_cache .hypothesis
