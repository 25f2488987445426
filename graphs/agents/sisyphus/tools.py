"""What the lead looks at and verifies by itself."""

from __future__ import annotations

from sleipnir import codebase


def project_info() -> dict:
    """Tell what kind of project it is, and its commands to build, test and check."""
    return codebase.detected().as_dict()


def run_build() -> str:
    """Build the project with its own command; the end of the output and how it ended."""
    return codebase.build()


def run_tests() -> str:
    """Run the tests of the project with its own command; the end of the output and how it ended."""
    return codebase.test()
