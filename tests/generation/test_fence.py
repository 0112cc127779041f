"""The methods of the library that the search replaces: all there, and missed when one changes."""

from transformers import GenerationMixin

from dwindle.generation.search import changed


def test_they_are_there():
    assert changed(GenerationMixin) == []


def test_one_that_is_called_otherwise_is_noticed():
    class Other(GenerationMixin):
        def _check_early_stop_heuristic(self, scores):
            return scores

        _gather_beams = None

    assert changed(Other) == ["_gather_beams", "_check_early_stop_heuristic"]
