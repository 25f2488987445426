"""The values of agent variables."""

import pytest

from sleipnir.graphs.errors import MissingVariables
from sleipnir.graphs.schema import Graph
from sleipnir.graphs.variables import environment_name, is_variable_name, resolve_variables
from tests.support.graphs import make_graph


def graph(*variables: dict[str, object]) -> Graph:
    described = [{"description": "d", **variable} for variable in variables]
    end = {"e": {"type": "end"}}
    return make_graph({"name": "g", "start": "e", "variables": described, "nodes": end})


def test_a_given_value_wins_over_the_default_and_others_are_left_out() -> None:
    declared = graph({"name": "a", "default": "x"}, {"name": "b", "default": "y"})

    assert resolve_variables(declared, {"a": "1", "other": "2"}) == {"a": "1", "b": "y"}


@pytest.mark.parametrize(
    ("default", "text"), [(5, "5"), (1.0, "1.0"), (True, "true"), ("", ""), ("é", "é")]
)
def test_a_default_is_kept_as_text(default: object, text: str) -> None:
    assert resolve_variables(graph({"name": "a", "default": default}), {}) == {"a": text}


def test_one_error_lists_all_variables_without_a_value() -> None:
    declared = graph({"name": "a"}, {"name": "b", "default": None}, {"name": "c"})

    with pytest.raises(MissingVariables) as caught:
        resolve_variables(declared, {"c": ""})

    assert caught.value.names == ("a", "b")
    assert [finding.code for finding in caught.value.findings] == ["E215", "E215"]
    assert "variable 'b' has no value: pass one or give a default" in str(caught.value)


def test_environment_names_are_upper_case_without_hyphens() -> None:
    assert environment_name("api-key_2") == "LLM_AGENT_VAR_API_KEY_2"


def test_names_begin_with_a_letter_or_underscore() -> None:
    assert is_variable_name("_a-1")
    assert not any(map(is_variable_name, ["", "1a", "a b", "é", "-a", "a\n"]))
