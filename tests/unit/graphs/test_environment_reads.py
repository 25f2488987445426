"""The environment variables that programs read, seen in their texts."""

import pytest

from sleipnir.graphs.environment_reads import variables_read


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ('make "$BUILD_CMD" ${DEPLOY_TO}', {"BUILD_CMD", "DEPLOY_TO"}),
        ('TEST_CMD="${TEST_CMD:-make test}"; $TEST_CMD', {"TEST_CMD"}),
        (": ${NEEDED:?}", {"NEEDED"}),
        ("OUT=$(ls); echo $OUT ${OUT:-nothing}", set()),
        ("export WHERE=/tmp; echo $WHERE", set()),
        ("PARTS=(a b); PARTS+=(c); echo ${PARTS[@]}", set()),
        ("while read -r LINE; do echo $LINE; done; for FILE in *; do cat $FILE; done", set()),
        ("# what $NOBODY sets\necho $RANDOM $BASH_SOURCE $lower $1", set()),
        ("python3 -c 'import os; print(os.environ[\"INSIDE\"])'", {"INSIDE"}),
    ],
)
def test_shell_programs(text: str, names: set[str]) -> None:
    assert variables_read(text, ".sh") == names


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("os.environ['A'] + os.environ.get(\"B\", '') + os.getenv('c')", {"A", "B", "c"}),
        ("os.environ['SET'] = '1'; print(os.environ['SET'])", set()),
        ("if os.environ['READ'] == '1': pass", {"READ"}),
        ("const a = process.env.A ?? process.env['B'];", {"A", "B"}),
        ("print('$NOTHING')", set()),
    ],
)
def test_programs_in_other_languages(text: str, names: set[str]) -> None:
    assert variables_read(text, ".py") == variables_read(text, ".ts") == names
