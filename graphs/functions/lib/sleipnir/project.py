"""Detects what kind of project a directory contains, and how it is built, tested and checked.

The first known file decides, of those that a language's own tools look for; no model is asked.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path


@dataclass(frozen=True)
class Project:
    """Its kind, and command lines for bash; empty if there is none."""

    type: str
    build: str = ""
    test: str = ""
    check: str = ""

    def as_dict(self) -> dict[str, str]:
        """Return it as a dictionary, as tools' results are JSON."""
        return asdict(self)


UNKNOWN = Project("unknown")


def detect(directory: Path) -> Project:
    """Return the project in a directory; `UNKNOWN` if it has none of the files."""
    for pattern, project_of in _MARKERS:
        if next(directory.glob(pattern), None) is not None:
            return project_of(directory)
    return UNKNOWN


def _fixed(project: Project) -> Callable[[Path], Project]:
    return lambda _: project


# ---- commands that depend on more than one file


def _deno(directory: Path) -> Project:
    tasks = _tasks(directory / "deno.json", "tasks")
    build = "deno task build" if "build" in tasks else ""
    test = "deno task test" if "test" in tasks else "deno test"
    check = "deno task check" if "check" in tasks else "deno check ."
    return Project("deno", build, test, check)


# The lock file tells which package manager is used.
_LOCKS = (
    ("pnpm-lock.yaml", "pnpm"),
    ("yarn.lock", "yarn"),
    ("bun.lock", "bun"),
    ("bun.lockb", "bun"),
)


def _node(directory: Path) -> Project:
    manager = next((name for lock, name in _LOCKS if (directory / lock).exists()), "npm")
    scripts = _tasks(directory / "package.json", "scripts")

    def script(*names: str) -> str:
        name = next((name for name in names if name in scripts), None)
        return f"{manager} run {name}" if name else ""

    typed = "npx tsc --noEmit" if (directory / "tsconfig.json").exists() else ""
    check = script("check", "typecheck", "type-check", "lint") or typed
    return Project(f"node ({manager})", script("build"), script("test"), check)


def _python(directory: Path) -> Project:
    text = _text(directory / "pyproject.toml") + _text(directory / "setup.cfg")
    run = _python_runner(directory, text)
    # The one name that every system has; a project's own environment has both.
    python = f"{run}python" if run else "python3"
    tests = f"{python} -m pytest -q"
    if "pytest" not in text and not _has_pytest_files(directory):
        tests = f"{python} -m unittest discover"
    checks = [
        command
        for marker, command in (("[tool.ruff", "ruff check ."), ("[tool.mypy", "mypy ."))
        if marker in text
    ]
    check = " && ".join(f"{run}{command}" for command in checks)
    return Project("python", f"{python} -m compileall -q .", tests, check)


def _python_runner(directory: Path, text: str) -> str:
    if (directory / "uv.lock").exists():
        return "uv run "
    if (directory / "poetry.lock").exists() or "[tool.poetry]" in text:
        return "poetry run "
    return ""


def _has_pytest_files(directory: Path) -> bool:
    names = ("pytest.ini", "conftest.py", "tests/conftest.py")
    return any((directory / name).exists() for name in names)


def _gradle(directory: Path) -> Project:
    gradle = "./gradlew" if (directory / "gradlew").exists() else "gradle"
    return Project("gradle", f"{gradle} assemble", f"{gradle} test", f"{gradle} check")


def _maven(directory: Path) -> Project:
    maven = "./mvnw" if (directory / "mvnw").exists() else "mvn"
    build = f"{maven} -q package -DskipTests"
    return Project("maven", build, f"{maven} -q test", f"{maven} -q compile")


def _ruby(directory: Path) -> Project:
    rspec = (directory / "spec").is_dir()
    check = "bundle exec rubocop" if (directory / ".rubocop.yml").exists() else ""
    return Project("ruby", "", "bundle exec rspec" if rspec else "bundle exec rake test", check)


def _php(directory: Path) -> Project:
    scripts = _tasks(directory / "composer.json", "scripts")
    test = "composer test" if "test" in scripts else "vendor/bin/phpunit"
    return Project("php", "composer install --no-interaction", test, "composer validate")


_CARGO = Project("cargo", "cargo build", "cargo test", "cargo check")
_GO = Project("go", "go build ./...", "go test ./...", "go vet ./...")
_DOTNET = Project("dotnet", "dotnet build", "dotnet test", "dotnet build --no-restore")
_CMAKE = Project(
    "cmake",
    "cmake -S . -B build && cmake --build build",
    "ctest --test-dir build --output-on-failure",
    "cmake -S . -B build",
)
_ELIXIR = Project("elixir", "mix compile", "mix test", "mix compile --warnings-as-errors")
_SWIFT = Project("swift", "swift build", "swift test", "swift build")

# The first one found decides.
_MARKERS: tuple[tuple[str, Callable[[Path], Project]], ...] = (
    ("Cargo.toml", _fixed(_CARGO)),
    ("go.mod", _fixed(_GO)),
    ("deno.json", _deno),
    ("deno.jsonc", _deno),
    ("package.json", _node),
    ("pyproject.toml", _python),
    ("setup.py", _python),
    ("setup.cfg", _python),
    ("requirements.txt", _python),
    ("pom.xml", _maven),
    ("build.gradle", _gradle),
    ("build.gradle.kts", _gradle),
    ("*.sln", _fixed(_DOTNET)),
    ("*.csproj", _fixed(_DOTNET)),
    ("*.fsproj", _fixed(_DOTNET)),
    ("CMakeLists.txt", _fixed(_CMAKE)),
    ("Gemfile", _ruby),
    ("mix.exs", _fixed(_ELIXIR)),
    ("composer.json", _php),
    ("Package.swift", _fixed(_SWIFT)),
)


def _tasks(file: Path, key: str) -> set[str]:
    """Return the names that a JSON file defines under a key; none if it cannot be read."""
    try:
        found = json.loads(_text(file))
    except ValueError:
        return set()
    named = found.get(key) if isinstance(found, dict) else None
    return set(named) if isinstance(named, dict) else set()


def _text(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
