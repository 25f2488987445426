"""What kind of project a directory holds."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from sleipnir.graphs.functions.lib.sleipnir.project import detect

PYTEST = "[tool.pytest.ini_options]\n[tool.ruff]\n[tool.mypy]\n"
SCRIPTS = json.dumps({"scripts": {"build": "x", "test": "x", "lint": "x"}})


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({}, ("unknown", "", "", "")),
        ({"README.md": ""}, ("unknown", "", "", "")),
        ({"Cargo.toml": ""}, ("cargo", "cargo build", "cargo test", "cargo check")),
        ({"go.mod": ""}, ("go", "go build ./...", "go test ./...", "go vet ./...")),
        ({"deno.json": ""}, ("deno", "", "deno test", "deno check .")),
        (
            {"deno.json": '{"tasks": {"build": "x", "check": "x"}}'},
            ("deno", "deno task build", "deno test", "deno task check"),
        ),
        ({"package.json": "{}"}, ("node (npm)", "", "", "")),
        (
            {"package.json": "not JSON", "tsconfig.json": ""},
            ("node (npm)", "", "", "npx tsc --noEmit"),
        ),
        (
            {"package.json": SCRIPTS, "pnpm-lock.yaml": ""},
            ("node (pnpm)", "pnpm run build", "pnpm run test", "pnpm run lint"),
        ),
        (
            {"package.json": SCRIPTS, "yarn.lock": ""},
            ("node (yarn)", "yarn run build", "yarn run test", "yarn run lint"),
        ),
        (
            {"package.json": SCRIPTS, "bun.lockb": ""},
            ("node (bun)", "bun run build", "bun run test", "bun run lint"),
        ),
        (
            {"pyproject.toml": PYTEST},
            (
                "python",
                "python3 -m compileall -q .",
                "python3 -m pytest -q",
                "ruff check . && mypy .",
            ),
        ),
        (
            {"requirements.txt": ""},
            ("python", "python3 -m compileall -q .", "python3 -m unittest discover", ""),
        ),
        (
            {"pyproject.toml": "", "uv.lock": "", "tests/conftest.py": ""},
            ("python", "uv run python -m compileall -q .", "uv run python -m pytest -q", ""),
        ),
        ({"pom.xml": ""}, ("maven", "mvn -q package -DskipTests", "mvn -q test", "mvn -q compile")),
        (
            {"build.gradle.kts": "", "gradlew": ""},
            ("gradle", "./gradlew assemble", "./gradlew test", "./gradlew check"),
        ),
        ({"App.sln": ""}, ("dotnet", "dotnet build", "dotnet test", "dotnet build --no-restore")),
        (
            {"CMakeLists.txt": ""},
            (
                "cmake",
                "cmake -S . -B build && cmake --build build",
                "ctest --test-dir build --output-on-failure",
                "cmake -S . -B build",
            ),
        ),
        (
            {"Gemfile": "", "spec/a_spec.rb": "", ".rubocop.yml": ""},
            ("ruby", "", "bundle exec rspec", "bundle exec rubocop"),
        ),
        (
            {"mix.exs": ""},
            ("elixir", "mix compile", "mix test", "mix compile --warnings-as-errors"),
        ),
        (
            {"composer.json": "{}"},
            ("php", "composer install --no-interaction", "vendor/bin/phpunit", "composer validate"),
        ),
        ({"Package.swift": ""}, ("swift", "swift build", "swift test", "swift build")),
    ],
    ids=lambda value: "+".join(value) if isinstance(value, dict) else None,
)
def test_a_project_is_known_by_its_files(
    tmp_path: Path, files: dict[str, str], expected: tuple[str, str, str, str]
) -> None:
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)

    assert tuple(detect(tmp_path).as_dict().values()) == expected


def test_of_several_the_first_of_the_list_decides(tmp_path: Path) -> None:
    order = [
        *("Cargo.toml", "go.mod", "deno.json", "package.json", "pyproject.toml", "pom.xml"),
        *("build.gradle", "a.csproj", "CMakeLists.txt", "Gemfile", "mix.exs", "composer.json"),
        "Package.swift",
    ]
    kinds = []
    for name in reversed(order):
        (tmp_path / name).touch()
        kinds.append(detect(tmp_path).type.partition(" ")[0])

    assert kinds == [
        *("swift", "php", "elixir", "ruby", "cmake", "dotnet", "gradle", "maven", "python"),
        *("node", "deno", "go", "cargo"),
    ]
