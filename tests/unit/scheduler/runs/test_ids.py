import pickle

import pytest

from sleipnir.scheduler.runs.ids import VisitId


def test_the_id_of_a_nodes_visit_knows_its_parts() -> None:
    visit = VisitId.of(3, "plan")

    assert visit == "3/plan"
    assert (visit.step, visit.node, visit.item, visit.map_visit) == (3, "plan", None, None)
    assert visit.place == "plan"


def test_the_id_of_an_invocation_knows_its_map() -> None:
    visit = VisitId("3/each/12")

    assert (visit.step, visit.node, visit.item) == (3, "each", 12)
    assert visit.map_visit == "3/each"
    assert visit.map_visit.invocation(12) == visit
    assert visit.place == "each/12"


def test_an_id_that_another_process_was_handed_still_knows_its_parts() -> None:
    visit = pickle.loads(pickle.dumps(VisitId("3/each/12")))

    assert (visit.step, visit.item) == (3, 12)


def test_what_is_no_id_of_a_visit_is_refused() -> None:
    with pytest.raises(ValueError, match="to unpack"):
        VisitId("plan")
