"""The page of a study: runs that differ only in seeds are one method. Responses of archives are decoded."""

import shutil
import urllib.error
import urllib.request
from threading import Thread

import pytest

from bepo.explore.episodes import tokenizer_of
from bepo.explore.methods import methods
from bepo.explore.names import PRESETS
from bepo.explore.watch import HOST, serve
from bepo.store.archive import read_archive
from bepo.store.find import read_any
from bepo.store.published import PUBLISHED
from tests.explore.runs_with_episodes import write


def test_runs_that_differ_only_in_seeds_are_one_method(tmp_path):
    wanted = [("gated_bepo", {}), ("gated_bepo", {"env.horizon": 6}), ("grpo", {})]
    runs = [
        read_any(write(tmp_path, credit, seed, **settings).path) for credit, settings in wanted for seed in (0, 1, 2)
    ]
    found = methods(runs)
    assert [one["runs"] for one in found] == [[0, 1, 2], [3, 4, 5], [6, 7, 8]]
    assert [one["twin"] for one in found] == [0, 1, 0] and found[2]["name"] == "GRPO"
    assert found[1]["name"].endswith("horizon=6") and found[1]["settings"]["env.horizon"] == "6"


def test_a_preset_of_another_paper_is_named_also_where_it_is_the_only_run_of_its_estimator(tmp_path):
    presets = {"progpo": {"credit.progress": 0.3}, "gigpo_roll": {"credit.state_scope": "batch"}}
    presets |= {"rewardflow": {"credit.unreachable": "zero"}}
    runs = [read_any(write(tmp_path, PRESETS[name].estimator, 0, **at).path) for name, at in presets.items()]
    assert [one["name"] for one in methods(runs)] == ["ProGPO", "GiGPO of ROLL", "RewardFlow"]
    assert presets.keys() == PRESETS.keys()


def test_published_runs_are_decoded_with_the_published_tokenizer():
    paths = [path for path in sorted(PUBLISHED.glob("laptop/*.zip")) if any(path.parent.glob(f"policies/{path.stem}"))]
    if not paths:
        pytest.skip("no published run has its policy")
    run = read_archive(paths[0])
    tokenizer = tokenizer_of(run)
    assert tokenizer is not None and tokenizer.get_vocab_size() > 3
    run.metadata["warm_start"] = None
    assert tokenizer_of(run) is not None, "its policy has a tokenizer, too"


@pytest.fixture
def server(tmp_path):
    write(tmp_path, "gated_bepo", 0)
    with serve(tmp_path) as server:
        thread = Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield f"http://{HOST}:{server.server_address[1]}"
        server.shutdown()
        thread.join()


def asked(address):
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(address, timeout=30) as answer:
        return answer.read().decode()


def test_a_watched_folder_has_a_page_of_each_run_that_follows_it(server, tmp_path):
    before, state = asked(f"{server}/"), asked(f"{server}/state")
    assert state in before and "connect-src 'self'" in before
    assert asked(f"{server}/") == before, "nothing changed"
    assert asked(f"{server}/favicon.ico") == ""
    run = next((tmp_path / "runs").glob("*")).name
    assert run in asked(f"{server}/{run[:6]}.html") or "Gated-BEPO" in asked(f"{server}/{run[:6]}.html")
    write(tmp_path, "grpo", 1)
    assert asked(f"{server}/state") != state and asked(f"{server}/") != before
    for unknown in ("nonsense.html", "..%2Fsecret.html", "etc/passwd"):
        with pytest.raises(urllib.error.HTTPError, match="404"):
            asked(f"{server}/{unknown}")
    shutil.rmtree(tmp_path / "runs")
    assert "No run in" in asked(f"{server}/")
