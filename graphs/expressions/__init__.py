"""Expressions: one small language for conditions, computed values, checks and filters.

    parse("score >= 0.8 && has(sources)").evaluate({"score": 0.9, "sources": []})  # True

An expression is pure, total and bounded: it reads names, calls no code of its author, and ends
after a fixed number of steps with a JSON value or an `ExpressionFailed`. Its text is parsed once;
nothing from a state ever becomes part of it. The syntax is that of CEL, the types those of JSON.

tokens.py → parser.py → tree.py, with operators.py and functions.py; expression.py is the result.
"""
