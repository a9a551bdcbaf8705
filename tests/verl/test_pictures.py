"""A picture is stored once, even if many transitions show it, and each transition gets it back."""

import pytest
import ray
import torch
from tensordict import NonTensorData
from verl.utils.model import extract_multi_modal_inputs

from bepo.training.verl import patches, pictures
from bepo.training.verl.pictures import DIGEST, NAME, Pictures, restore, store


@pytest.fixture
def actor():
    ray.init(address="local", num_cpus=2, include_dashboard=False, object_store_memory=100_000_000, log_to_driver=False)
    pictures._actor.cache_clear()
    yield ray.remote(Pictures).options(name=NAME, num_cpus=0.1).remote()
    ray.shutdown()


def test_three_transitions_with_two_pictures_and_one_without(actor, monkeypatch):
    boards = [torch.rand(36, 1176, generator=torch.Generator().manual_seed(seed)) for seed in (1, 2, 1)]
    grid = torch.tensor([[1, 6, 6]])
    plain = [{"pixel_values": board, "image_grid_thw": grid} for board in boards] + [{}]
    stored = [store(dict(row)) for row in plain]
    assert [set(row) for row in stored] == [{DIGEST, "image_grid_thw"}] * 3 + [set()]
    assert stored[0][DIGEST] == stored[2][DIGEST] != stored[1][DIGEST]
    for row, expected in zip(restore(stored), plain):
        assert row.keys() == expected.keys()
        torch.testing.assert_close(row, expected, rtol=0, atol=0)
    monkeypatch.setitem(patches._theirs, "extract", extract_multi_modal_inputs)
    found = patches.extract_pictures([NonTensorData(row) for row in stored])
    torch.testing.assert_close(found, extract_multi_modal_inputs(plain), rtol=0, atol=0)
    assert ray.get(actor.clear.remote()) == 2 and ray.get(actor.missing.remote(stored[0][DIGEST]))
    assert patches.extract_pictures([]) == {}
