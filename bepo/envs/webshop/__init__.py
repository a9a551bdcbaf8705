"""WebShop: find and buy the product that an instruction describes. A text engine, without web server, Java or spaCy."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property, lru_cache
from random import Random
from typing import Any, ClassVar, Literal

from bepo.envs import Observation, PromptText, Split, Step, Task, content_id, register
from bepo.envs.webshop import files, text
from bepo.envs.webshop import goals as wishes
from bepo.envs.webshop.catalogue import Catalogue
from bepo.envs.webshop.expert import Expert
from bepo.envs.webshop.generate import generate
from bepo.envs.webshop.goals import Goal
from bepo.envs.webshop.nouns import nouns_by, tagger
from bepo.envs.webshop.pages import Session, Shop
from bepo.envs.webshop.views import Compact, Pages, vocabulary
from bepo.errors import Missing, UserError
from bepo.rollout import Terminal

_TRAIN_WORKERS, _VALIDATION_WORKERS, _FIRST_TRAIN = 16, 128, 500  # of official_split


@register
@dataclass
class WebShop:
    """The shop of Yao et al. (2022). Reward 10 for a perfect purchase, 0 otherwise; the graded match is the score.

    Deviations: 1. One permutation of all goals splits them into disjoint parts (verl-agent shuffles anew in every
    worker, so its training goals contain most of its validation goals: ``official_split``). 2. Prices and price
    bounds are seeded. 3. Search commands are off (``keyword_commands``). 4. ``search`` is no button.
    """

    name: Literal["webshop"] = "webshop"
    data: Literal["generated", "official"] = "generated"
    """Invented goods in the official formats, or the official files."""
    path: str = ""
    """Folder of the official files; empty: the environment variable WEBSHOP_DATA."""
    catalogue: Literal["small", "full"] = "small"
    """Of the official files: 1,000 products, or all 1.18 million."""
    files: str = ""
    """Fingerprint of the official files, filled in; where it is given, other files are refused."""
    products: int = 1000
    """Of the generated catalogue."""
    catalogue_seed: int = 0
    goals: Literal["synthetic", "human"] = "synthetic"
    """Instructions made from attributes, one for each combination of options; or the ones that people wrote."""
    seed: int = 0
    """Of prices and price bounds."""
    goal_order: int = 233
    """Seed of the permutation that splits the goals (the original's)."""
    official_split: bool = False
    """verl-agent's overlapping split: 16 training and 128 validation workers shuffle and price the goals each anew."""
    observation_mode: text.Mode = "text"
    """text hides which options are chosen; text_rich marks what was clicked. Decides prompts and state keys."""
    rendering: Literal["page", "compact"] = "page"
    """compact: few words for tiny models (``views.Compact``). Changes prompts and action words, not state keys."""
    suggestions: int = 0
    """Searches offered as admissible actions, made of the instruction's words; 0: the policy writes its own."""
    show_attributes: bool = False
    """Item pages have an Attributes button."""
    keyword_commands: bool = False
    """Allow the searches <r>, <c>, <q> and <a>, which list products without describing them."""
    nouns: Literal["auto", "spacy", "rules"] = "auto"
    """Tagger of the reward's type match; auto becomes spacy where its model can be imported, else rules."""
    horizon: int = 15
    """Steps before an episode is cut off."""

    method_version: ClassVar[int] = 1
    untagged_tail: ClassVar[int] = 20

    def __post_init__(self) -> None:
        self.nouns = tagger(self.nouns)
        if self.data == "official" and self.missing() is None:
            found = files.fingerprint(self.path, self.catalogue)
            if self.files not in ("", found):
                raise UserError(f"env.files={self.files}: the files in {files.folder(self.path)} are others ({found})")
            self.files = found
        for name, least in (("products", 1), ("suggestions", 0), ("horizon", 1)):
            if getattr(self, name) < least:
                raise UserError(f"env.{name}={getattr(self, name)}: at least {least}")
        if self.official_split and self.data == "official" and self.catalogue == "full":
            raise UserError("env.official_split needs env.catalogue=small: it prices all products once a worker")

    def __getstate__(self) -> dict[str, Any]:
        """Settings travel to other processes; what was loaded stays behind."""
        return asdict(self)

    @property
    def free_text(self) -> str:
        """Why listed actions alone do not do, if so."""
        return "" if self.suggestions else "of WebShop's searches only env.suggestions=3 (say) lists any"

    def missing(self) -> Missing | None:
        return files.lacking(self.path, self.catalogue) if self.data == "official" else None

    # --- tasks ---------------------------------------------------------------------------------------------

    def tasks(self, split: Split) -> Iterator[Task]:
        """Goals of a split, each once. A goal that occurs in several splits is kept in the first: test, validation."""
        if self.official_split:
            yield from _distinct(self._worker_tasks(split), set())
            return
        seen: set[str] = set()
        for name, places in self._ranges().items():
            goals, order = self._goals(self.seed), self._order
            found = _distinct((self._task(goals[order[i]], self.seed) for i in places), seen)
            if name == split:
                yield from found
                return
            for _ in found:  # notes what is taken
                pass

    def _ranges(self) -> dict[str, range]:
        """The original's: 500 test goals, then 1,000 to validate; at most a tenth each of a smaller set."""
        n = len(self._order)
        test, validation = min(500, n // 10), min(1000, n // 10)
        return {
            "test": range(test),
            "validation": range(test, test + validation),
            "train": range(test + validation, n),
        }

    @cached_property
    def _order(self) -> list[int]:
        return wishes.permutation(len(self._goals(self.seed)), self.goal_order)

    def _worker_tasks(self, split: Split) -> Iterator[Task]:
        """verl-agent: worker w shuffles with seed + w; indices 0-499 validate, the others train."""
        first, workers = (0, _TRAIN_WORKERS) if split == "train" else (1000, _VALIDATION_WORKERS)
        n = len(self._order)
        border = min(_FIRST_TRAIN, n // 10)
        places = {"train": range(border, n), "validation": range(border // 2, border), "test": range(border // 2)}
        orders = {}
        for place in places[split]:
            for seed in range(self.seed + first, self.seed + first + workers):
                if seed not in orders:
                    orders[seed] = wishes.permutation(n, seed)
                yield self._task(self._goals(seed)[orders[seed][place]], seed)

    def _task(self, goal: Goal, price_seed: int) -> Task:
        data = {"goal": asdict(goal), "prices": price_seed, "catalogue": self._catalogue.digest}
        data = json.loads(json.dumps(data))  # lists, as a stored panel has
        return Task(content_id(json.dumps(data, sort_keys=True)), data, self._shop.product(goal.asin).category)

    # --- the shop ------------------------------------------------------------------------------------------

    @cached_property
    def _catalogue(self) -> Catalogue:
        if self.data == "generated":
            return _generated(self.products, self.catalogue_seed)
        if missing := self.missing():
            raise missing
        return files.official(str(files.folder(self.path)), self.catalogue)

    @cached_property
    def _shop(self) -> Shop:
        return Shop(self._catalogue, nouns_by(self.nouns), self.show_attributes, self.keyword_commands, self.seed)

    @cached_property
    def _priced(self) -> dict[int, tuple[list[float], Sequence[Goal]]]:
        return {}

    def _prices_and_goals(self, seed: int) -> tuple[list[float], Sequence[Goal]]:
        """Prices by product, then goals with their bounds, from one stream as in the original."""
        if seed not in self._priced:
            rng = Random(seed)
            prices = wishes.draw_prices(self._catalogue, rng)
            make = wishes.human_goals if self.goals == "human" else wishes.SyntheticGoals
            self._priced[seed] = prices, make(self._catalogue, prices, rng)
        return self._priced[seed]

    def _goals(self, seed: int) -> Sequence[Goal]:
        return self._prices_and_goals(seed)[1]

    def facts(self) -> dict[str, Any]:
        """What a record says about the data: source, content digest, sizes, entries left out, noun tagger."""
        catalogue = self._catalogue
        return {
            "data": catalogue.source,
            "catalogue": catalogue.digest,
            "products": len(catalogue),
            "goals": len(self._order),
            "left_out": dict(catalogue.skipped),
            "nouns": self.nouns,
        }

    # --- playing -------------------------------------------------------------------------------------------

    @cached_property
    def view(self) -> Pages:
        cls = Compact if self.rendering == "compact" else Pages
        return cls(self.observation_mode, self.suggestions)

    @cached_property
    def prompt(self) -> PromptText:
        return PromptText(
            role="You are an expert autonomous agent in the WebShop e-commerce environment.",
            rules=(
                "Find and buy the product that the task describes. search[query] looks for products; click[button] "
                "opens one, chooses an option, or follows a button; click[buy now] ends the episode."
            ),
            words=vocabulary(self._catalogue, self._instructions()) if self.rendering == "compact" else (),
        )

    def _instructions(self) -> Iterator[str]:
        if self.goals == "human":
            yield from (goal.instruction for goal in self._goals(self.seed))
            return
        told = (self._catalogue.instruction(n) for n in range(len(self._catalogue)))
        yield from (found[0] + " with" for found in told if found)

    def start(self, tasks: Sequence[Task]) -> WebShopEpisodes:
        """Raises ``UserError`` for a task of another catalogue."""
        sessions = []
        for task in tasks:
            if task.data["catalogue"] != self._catalogue.digest:
                raise UserError(f"task {task.id} is of another catalogue than the {self._catalogue.source} one")
            prices, _ = self._prices_and_goals(task.data["prices"])
            sessions.append(Session(self._shop, _goal(task.data["goal"]), prices))
        return WebShopEpisodes(sessions, self.view, self.observation_mode)

    def project(self, text: str) -> str | None:
        return self.view.project(text)


class WebShopEpisodes:
    """Independent sessions in one shop."""

    def __init__(self, sessions: Sequence[Session], view: Pages, mode: text.Mode) -> None:
        self._sessions, self._view, self._mode = sessions, view, mode
        self._experts: dict[int, Expert] = {}
        self.observations = [self._observe(session) for session in sessions]
        self.instructions = [view.instruction(session) for session in sessions]

    def _observe(self, session: Session) -> Observation:
        key = text.page(session, self._mode)
        return Observation(self._view.show(session, key), key, self._view.actions(session))

    def step(self, actions: Mapping[int, str | None]) -> dict[int, Step]:
        return {i: self._step(i, action) for i, action in actions.items()}

    def _step(self, i: int, action: str | None) -> Step:
        session = self._sessions[i]
        score = None if action is None else session.act(self._view.resolve(session, action))
        self.observations[i] = self._observe(session)
        if score is None:
            return Step(self.observations[i], 0.0, Terminal.NONE, 0.0)
        perfect = score == 1
        terminal = Terminal.SUCCESS if perfect else Terminal.FAILURE
        return Step(self.observations[i], 10.0 * perfect, terminal, float(score))

    def expert(self, index: int) -> str | None:
        session = self._sessions[index]
        if index not in self._experts:
            queries = self._view.queries(session) if self._view.suggestions else ()
            self._experts[index] = Expert(session, queries)
        found = self._experts[index].action()
        return None if found is None else self._view.spell(session, *found)


@lru_cache(maxsize=2)
def _generated(products: int, seed: int) -> Catalogue:
    entries, attributes, human = generate(products, seed)
    return Catalogue(entries, attributes, human.items(), f"generated ({products} products, seed {seed})")


def _distinct(tasks: Iterator[Task], seen: set[str]) -> Iterator[Task]:
    for task in tasks:
        if task.id not in seen:
            seen.add(task.id)
            yield task


def _goal(data: Mapping[str, Any]) -> Goal:
    options = tuple(tuple(o) if isinstance(o, list) else o for o in data["options"])
    attributes = tuple(data["attributes"])
    return Goal(data["asin"], data["instruction"], attributes, data["price_upper"], options)
