"""Forms in a browser: lists have rows, JSON is checked while typing, files are dropped."""

from __future__ import annotations

from typing import Any

from tests.support.browser import Person
from tests.support.engine import Engine
from tests.support.site import ServedSite

FORM = """
initial_state: {tags: [sun, moon], plan: {"a": 1}, note: "", level: low, town: ""}
x-form:
  note: {format: textarea}
  level: {enum: [low, high]}
start: z
nodes: {z: {type: end, output: "{{initial_prompt}} {{tags}} {{plan}} {{note}} {{level}} {{town}}"}}
"""
DROP = """([selector, name, text]) => {
  const held = new DataTransfer();
  held.items.add(new File([text], name));
  const dropped = {dataTransfer: held, bubbles: true, cancelable: true};
  document.querySelector(selector).dispatchEvent(new DragEvent("drop", dropped));
}"""


def test_a_run_and_a_batch_are_started_with_scripts_and_without(
    engine: Engine, browser: Any
) -> None:
    engine.write("asking", FORM)
    with ServedSite(engine.client) as site:
        person = Person(browser, site)
        page = person.open("/agents/asking?tab=start")

        page.get_by_role("textbox", name="Prompt", exact=True).fill("hi")
        page.get_by_label("Remove tags 1").click()
        page.get_by_role("button", name="Add").click()
        page.keyboard.type("<sky>")
        page.get_by_label("plan").fill("{")
        told = page.get_by_text("This is not JSON")
        told.wait_for()
        page.get_by_label("plan").fill('{"a": 2}')
        told.wait_for(state="detached")
        page.evaluate(DROP, ["#state-note-field", "note.md", "from a <file>"])
        page.wait_for_function("document.querySelector('#state-note-field').value")
        page.get_by_label("level").select_option("high")
        page.get_by_role("button", name="Start", exact=True).click()
        page.wait_for_url("**/runs/*")
        engine.drive()

        page = person.open("/agents/asking?tab=start")
        page.evaluate(DROP, ["[data-drop-file]", "all.csv", "prompt,Town\nhi,<Ulm>\nho,Rom\n"])
        page.get_by_role("button", name="Start as a batch…").click()
        page.get_by_role("button", name="Start 2 runs").click()
        page.wait_for_url("**/batches/asking-all-*")
        engine.drive()

        plain = Person(browser, site, java_script_enabled=False)
        page = plain.open("/agents/asking?tab=start")
        page.get_by_label("tags").fill("one\ntwo")
        page.locator(".batch-file input[type=file]").set_input_files(
            {"name": "more.jsonl", "mimeType": "text/plain", "buffer": b'{"prompt": "hu"}'}
        )
        page.get_by_role("button", name="Start", exact=True).click()
        page.wait_for_url("**/runs/*")
        engine.drive()

        outputs = [engine.run(run_id).output for run_id in engine.newest_runs()]
        assert sorted(filter(None, outputs)) == [
            ' ["one","two"] {"a":1}  low ',
            'hi ["moon","<sky>"] {"a":2} from a <file> high ',
            'hi ["sun","moon"] {"a":1}  low <Ulm>',
            'ho ["sun","moon"] {"a":1}  low Rom',
        ]
        assert person.complaints.all == plain.complaints.all == []
        person.context.close()
        plain.context.close()


def test_a_long_list_stays_one_text(engine: Engine, person: Person) -> None:
    words = [f"word-{number}" for number in range(30)]
    end = "start: z\nnodes: {z: {type: end}}"
    engine.write("words", f"initial_state: {{words: {words}}}\n{end}")

    page = person.open("/agents/words?tab=start")
    field = page.locator("textarea[data-texts]")

    assert field.is_visible()
    assert field.input_value().split("\n") == words
    assert page.get_by_role("button", name="Remove").count() == 0
