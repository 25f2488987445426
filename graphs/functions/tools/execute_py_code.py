"""Runs Python code."""

import ast
import contextlib
import io
import linecache
import sys
import traceback

NAME = "<code>"


def run(code: str) -> str:
    """Run Python code and return what it prints, with the value of its last expression.

    Every call starts afresh: variables of earlier calls are gone.

    Args:
        code: The Python code.
    """
    # For tracebacks, which show the lines of the code.
    linecache.cache[NAME] = (len(code), None, code.splitlines(keepends=True), NAME)
    printed = io.StringIO()
    try:
        with contextlib.redirect_stdout(printed):
            value = _execute(code)
            if value is not None:
                print(value if isinstance(value, str) else repr(value))
    except SystemExit as end:
        if end.code not in (None, 0):
            sys.stdout.write(printed.getvalue())
            raise SystemExit(f"the code ended with exit status {end.code}") from end
    except BaseException as error:
        sys.stdout.write(printed.getvalue())
        raise SystemExit(_report(error)) from error
    return printed.getvalue()


def _execute(code: str) -> object:
    """Run all statements; the value of the last one if it is an expression."""
    module = ast.parse(code, NAME)
    names = {"__name__": "__main__"}
    last = module.body.pop() if module.body and isinstance(module.body[-1], ast.Expr) else None
    exec(compile(module, NAME, "exec"), names)
    if last is None:
        return None
    return eval(compile(ast.Expression(last.value), NAME, "eval"), names)


def _report(error: BaseException) -> str:
    """The traceback without the frames of this tool."""
    trace = error.__traceback__
    while trace is not None and trace.tb_frame.f_code.co_filename != NAME:
        trace = trace.tb_next
    return "".join(traceback.format_exception(type(error), error, trace)).rstrip()
