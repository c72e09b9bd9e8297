"""Starts rsctl's own programs, and loads its binding into PyTorch, past the files of the user.

    python .../rsctl_start.py MODULE ARGUMENTS...

A file of the user's, such as `random.py` or a folder `rsctl/`, never takes the place of a module
that rsctl imports. `python -m` searches the working directory first, and `python -P` exists only
since 3.11, so Python starts this file by its path. The file lies beside the package and not in it,
since `import rsctl` may find a folder of the user's. It must run on Python 3.6, which the rest
does not parse on, and imports only modules that are built in or already loaded.
"""

import gc
import os
import sys

TYPE_CHECKING = False  # importing typing is importing a module
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from importlib.machinery import ModuleSpec
    from types import ModuleType

_ROOT = os.path.dirname(os.path.abspath(__file__))
_LIBRARY = os.path.dirname(os.__file__)

USUAL_COLLECTIONS = gc.get_threshold()
"""Python's own setting of when it looks for garbage."""

_OBJECTS_BETWEEN_COLLECTIONS = 100_000  # imports make so many objects, and no garbage


def command(module: str, python: str = sys.executable, root: str = _ROOT) -> "list[str]":
    """The command line that starts a module of rsctl; `root` is the folder of the package."""
    return [python, os.path.join(root, "rsctl_start.py"), module]


def launch() -> int:
    """The program `rsctl-launch`."""
    _prepare()
    from rsctl.node.launch import main

    return main()


def reduce() -> int:
    """The program `rsctl-reduce`."""
    _prepare()
    from rsctl.transport.reduce import main

    return main()


def _prepare() -> None:
    """Keep to the own path, and have the program start and end without a search for garbage, which
    takes torchrun 0.6 s of processor.
    """
    gc.set_threshold(_OBJECTS_BETWEEN_COLLECTIONS)
    keep_to_own_path()
    import atexit

    atexit.register(gc.freeze)


def keep_to_own_path() -> None:
    """Remove the working directory from Python's path, and move the folders of PYTHONPATH behind
    the standard library: torch may be in one of them. If one is the working directory, it is last.

    `rsctl` is the package beside this file, even where the path has another one. The environment
    stays as it is, and with it the path of the user's script.
    """
    try:
        here = os.path.realpath(os.getcwd())
    except OSError:  # the folder was removed
        here = ""
    users = _python_path()
    path = [
        folder
        for folder in sys.path
        if folder not in ("", *users) and os.path.realpath(folder) != here
    ]
    library = (_LIBRARY, "lib-dynload")
    end = max([n + 1 for n, folder in enumerate(path) if folder.endswith(library)], default=0)
    path[end:end] = [folder for folder in users if os.path.realpath(folder) != here]
    path += [folder for folder in users if os.path.realpath(folder) == here]
    sys.path[:] = [_ROOT, *path]
    import rsctl  # noqa: F401 - Python finds all of its modules in its own folder from now on

    sys.path[:] = path if _ROOT in path else [*path, _ROOT]


def _python_path() -> "list[str]":
    given = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    return [os.path.abspath(folder) for folder in given if folder]


def autoload() -> None:
    """The entry point of the group `torch.backends`: does nothing outside of a job of rsctl."""
    if any(name.startswith("RSCTL_") for name in os.environ):
        _prefer_own_modules()
        from rsctl.transport import pytorch

        pytorch.autoload()


def register() -> None:
    """The entry point of the group `torch.distributed.backends`."""
    _prefer_own_modules()
    from rsctl.transport import pytorch

    pytorch.register()


def _prefer_own_modules() -> None:
    """Have rsctl's modules in this process, which is the user's script, import the standard library
    and each other, where the script's folder has files of the same names.
    """
    if any(isinstance(finder, _Finder) for finder in sys.meta_path):
        return
    folders = [sys.path[0] or os.curdir, *_python_path()]
    names = {"rsctl", *getattr(sys, "stdlib_module_names", ())}
    users = {folder: names & _modules_in(folder) for folder in folders}
    users = {f: found for f, found in users.items() if found and f not in (_ROOT, _LIBRARY)}
    if users:
        sys.meta_path.insert(0, _Finder(list(users), set().union(*users.values())))


def _modules_in(folder: str) -> "set[str]":
    try:
        return {name.partition(".")[0] for name in os.listdir(folder)}
    except OSError:
        return set()


class _Finder:
    """Finds rsctl's modules, and hides the user's modules while one of those is imported.

    Afterwards the script finds its own modules again. `names` are those in the user's `folders`.
    """

    def __init__(self, folders: "list[str]", names: "set[str]") -> None:
        self._folders = {os.path.realpath(folder) for folder in folders}
        self._names = names
        self._own: dict[str, ModuleType] = {}
        self._is_importing = False

    def find_spec(
        self, name: str, path: "Sequence[str] | None", target: "ModuleType | None" = None
    ) -> "ModuleSpec | None":
        """See importlib.abc.MetaPathFinder."""
        if name.partition(".")[0] != "rsctl":
            return None
        from importlib.machinery import PathFinder

        spec = PathFinder.find_spec(name, [_ROOT] if path is None else path)
        if spec is not None and spec.loader is not None:
            execute = spec.loader.exec_module
            guarded = lambda module: self._execute(execute, module)  # noqa: E731
            spec.loader.exec_module = guarded  # type: ignore[method-assign]
        return spec

    def _execute(self, execute: "Callable[[ModuleType], None]", module: "ModuleType") -> None:
        if self._is_importing:
            execute(module)
            return
        path, before = sys.path[:], self._shadowing()
        hidden = {name: sys.modules.pop(name) for name in before if self._is_users(name)}
        sys.modules.update(self._own)
        sys.path[:] = [f for f in path if os.path.realpath(f) not in self._folders]
        self._is_importing = True
        try:
            execute(module)
        finally:
            self._is_importing = False
            sys.path[:] = path
            for name in self._shadowing():
                if name in hidden or name not in before:
                    self._own[name] = sys.modules.pop(name)
            sys.modules.update(hidden)

    def _shadowing(self) -> "list[str]":
        names = self._names - {"rsctl"}
        return [name for name in sys.modules if name.partition(".")[0] in names]

    def _is_users(self, name: str) -> bool:
        file = getattr(sys.modules[name], "__file__", None) or ""
        return any(os.path.realpath(file).startswith(f + os.sep) for f in self._folders)


def _main() -> None:
    if sys.version_info < (3, 7):  # noqa: UP036 - where the rest does not parse
        found = ".".join(map(str, sys.version_info[:3]))
        sys.exit(f"rsctl: {sys.executable} is Python {found}, but rsctl's runtime needs 3.10")
    if sys.path[0] in (_ROOT, os.path.dirname(os.path.realpath(__file__))):
        del sys.path[0]  # the folder of the script
    sys.modules["rsctl_start"] = sys.modules["__main__"]  # not one of another version
    _prepare()
    import runpy

    del sys.argv[0]
    runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    _main()
