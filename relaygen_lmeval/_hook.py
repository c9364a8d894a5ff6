"""Tells the stock `lm_eval` command of the model `relaygen` and of the tasks in this package.

`relaygen_lmeval.pth` imports this module at every Python start, so it imports nothing but what
is loaded by then; it touches lm_eval only once somebody else has imported it, and it knows
nothing of torch. `RELAYGEN_LMEVAL_HOOK=0` in the environment switches that automatic start off.

lm_eval 0.4.13 looks for no plugins. Registering before `lm_eval.models` is imported would hide
every built-in model (`get_model` imports those only while the registry is empty), hence the
wait. A release that reads the entry-point group `lm_eval.models` knows `relaygen` by itself,
and is left alone.
"""

import os
import sys

TYPE_CHECKING = False  # what `typing` has; importing that takes longer than all of this file
if TYPE_CHECKING:
    from collections.abc import Sequence
    from importlib.machinery import ModuleSpec
    from inspect import Signature
    from types import ModuleType

MODEL_NAME = "relaygen"
MODEL_TARGET = "relaygen_lmeval.harness.model:RelayLM"


def install() -> None:
    """Make lm_eval know us now, or as soon as it is imported; more than once does no harm."""
    for name in list(_finder.waiting):
        module = sys.modules.get(name)
        if module is not None:
            _finder.finish(name, module)
    if _finder.waiting and _finder not in sys.meta_path:
        sys.meta_path.insert(0, _finder)


class _Finder:
    """An import finder that finds nothing itself and acts when certain modules have run."""

    def __init__(self) -> None:
        self.waiting = set(_STEPS)

    def find_spec(
        self, name: str, path: "Sequence[str] | None" = None, target: "ModuleType | None" = None
    ) -> "ModuleSpec | None":
        """Let the other finders find the module, and see to it that we learn when it has run."""
        if name not in self.waiting:
            return None
        try:
            spec = self._ask_others(name, path, target)
            if spec is not None:
                self._watch(name, spec)
        except Exception as error:  # noqa: BLE001  the import goes on as if we were not here
            _warn(name, error)
            return None
        return spec

    def _ask_others(
        self, name: str, path: "Sequence[str] | None", target: "ModuleType | None"
    ) -> "ModuleSpec | None":
        for finder in list(sys.meta_path):
            spec = None if finder is self else finder.find_spec(name, path, target)
            if spec is not None:
                return spec
        return None

    def _watch(self, name: str, spec: "ModuleSpec") -> None:
        """Shadow `exec_module` on this one loader, which stays what it is to everyone else."""
        loader = spec.loader
        if loader is None:
            return
        execute = loader.exec_module

        def exec_module(module: "ModuleType") -> None:
            execute(module)
            loader.__dict__.pop("exec_module", None)
            self.finish(name, module)

        loader.exec_module = exec_module  # type: ignore[method-assign]

    def finish(self, name: str, module: "ModuleType") -> None:
        """Do what was to be done once the module has run, and get out of the way."""
        self.waiting.discard(name)
        try:
            _STEPS[name](module)
        except Exception as error:  # noqa: BLE001  lm_eval must work without us
            _warn(name, error)
        if not self.waiting and self in sys.meta_path:
            sys.meta_path.remove(self)


def _register_model(_: "ModuleType") -> None:
    from lm_eval.api.registry import model_registry

    if MODEL_NAME not in model_registry:
        model_registry.register(MODEL_NAME, target=MODEL_TARGET)


def _scan_our_tasks(module: "ModuleType") -> None:
    """Wrap `TaskManager.__init__`, which decides where to look for tasks."""
    import functools
    import inspect

    original = module.TaskManager.__init__
    if hasattr(original, "relaygen_lmeval"):
        return
    signature = inspect.signature(original)

    @functools.wraps(original)
    def init(*args: object, **kwargs: object) -> None:
        args, kwargs = _with_our_tasks(signature, args, kwargs)
        original(*args, **kwargs)

    init.relaygen_lmeval = True  # type: ignore[attr-defined]
    module.TaskManager.__init__ = init


def _with_our_tasks(
    signature: "Signature", args: tuple[object, ...], kwargs: dict[str, object]
) -> tuple[tuple[object, ...], dict[str, object]]:
    """Put our folder ahead of the user's, whose tasks win, unless only theirs are wanted."""
    try:
        bound = signature.bind(*args, **kwargs)
    except TypeError:
        return args, kwargs  # a wrong call: the original says it better
    bound.apply_defaults()
    given = bound.arguments
    if "include_path" in given and given.get("include_defaults", True):
        given["include_path"] = _paths_with_ours(given["include_path"])
    return bound.args, bound.kwargs


def _paths_with_ours(paths: object) -> list[object]:
    from relaygen_lmeval.tasks import tasks_path

    ours = tasks_path()
    theirs = list(paths) if isinstance(paths, (list, tuple)) else [paths] if paths else []
    known = any(str(path) == str(ours) for path in theirs)
    return theirs if known else [ours, *theirs]


def _warn(name: str, error: Exception) -> None:
    import logging

    logging.getLogger(__name__).warning(
        "relaygen_lmeval could not hook into %s: the model `relaygen` or its tasks may be unknown "
        "there. Please report this with the version of lm_eval; RELAYGEN_LMEVAL_HOOK=0 switches "
        "the hook off",
        name,
        exc_info=error,
    )


_STEPS = {"lm_eval.models": _register_model, "lm_eval.tasks": _scan_our_tasks}
_finder = _Finder()

if os.environ.get("RELAYGEN_LMEVAL_HOOK") != "0":
    install()
