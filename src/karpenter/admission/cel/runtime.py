"""The CEL engine, without the command line that comes with it.

``import cel`` also loads the library's terminal interface, with prompt-toolkit and pygments:
0.3 seconds, ten times as long as the engine itself. Its compiled module is complete on its own.
"""

import importlib.machinery
import importlib.util
import sys
from types import ModuleType
from typing import TYPE_CHECKING, Final

_ENGINE: Final = "cel.cel"


def _load_engine() -> ModuleType:
    loaded = sys.modules.get(_ENGINE)
    if loaded is not None:
        return loaded
    package = importlib.util.find_spec("cel")
    locations = package.submodule_search_locations if package else None
    spec = importlib.machinery.PathFinder.find_spec(_ENGINE, locations)
    if spec is None or spec.loader is None:
        raise ImportError("the package common-expression-language is not installed")
    engine = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(engine)
    sys.modules[_ENGINE] = engine
    return engine


if TYPE_CHECKING:
    from cel import Context, OptionalValue, Program
    from cel import compile as compile_program
else:
    _engine = _load_engine()
    Context = _engine.Context
    OptionalValue = _engine.OptionalValue
    Program = _engine.Program
    compile_program = _engine.compile

# What evaluation raises: the engine maps CEL's errors to Python exceptions
EVALUATION_ERRORS: Final = (ArithmeticError, LookupError, RuntimeError, TypeError, ValueError)

__all__ = ["EVALUATION_ERRORS", "Context", "OptionalValue", "Program", "compile_program"]
