"""WebShop: find and buy the product that an instruction describes (Yao et al., 2022).

The engine works on text. It does not need a web server, Java or spaCy.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property, lru_cache
from random import Random
from typing import Any, ClassVar, Literal

from bepo.core.errors import Missing, UserError
from bepo.core.settings import setting
from bepo.envs import Environment, PromptText, Split, Task, content_id, register
from bepo.envs.webshop import original, splits, text
from bepo.envs.webshop.catalogue import Catalogue
from bepo.envs.webshop.episodes import WebShopEpisodes
from bepo.envs.webshop.generate import generate
from bepo.envs.webshop.goals import Goal, SyntheticGoals, draw_prices, human_goals, permutation
from bepo.envs.webshop.nouns import choose_tagger, noun_filter
from bepo.envs.webshop.pages import Session, Shop
from bepo.envs.webshop.views import CompactView, PageView, vocabulary


@register
@dataclass
class WebShop(Environment):
    """The shop of Yao et al. (2022). A perfect purchase has the reward 10, everything else 0 (verl-agent).

    The task score is the graded match of Yao et al., in [0, 1]. Deviations from the original: 1. One permutation of all
    goals gives disjoint splits. In verl-agent every worker permutes the goals anew, so its training goals contain most
    of its validation goals (``verl_agent_split``). 2. Prices and price bounds follow from a seed. 3. The search
    commands are off (``keyword_commands``). 4. ``search`` is not a button.
    """

    name: Literal["webshop"] = "webshop"
    data: Literal["generated", "original"] = "generated"
    """Invented products in the format of the original files, or the original files."""
    path: str = setting("", identity="default")
    """The folder of the original files; empty: the folder in the environment variable WEBSHOP_DATA."""
    catalogue: original.Size = "small"
    """The original catalogue: 1,000 products, or all 1.18 million."""
    data_digest: str = ""
    """A digest of the original files, filled in automatically. It is part of the run ID; their folder is not.

    If set, other files are refused.
    """
    products: int = setting(1000, at_least=1, at_most=10_000_000)
    """Number of generated products."""
    catalogue_seed: int = setting(0, at_least=0)
    """The seed of the generated products."""
    colors: int = setting(12, at_least=2, at_most=12, neutral=True)
    """Number of different colours of the generated products; a product has at most four of them."""
    extra_options: int = setting(0, at_least=0, at_most=4, neutral=True)
    """Number of additional options, with three values each, of every generated product."""
    goals: Literal["synthetic", "human"] = "synthetic"
    """Instructions made from attributes, one for each combination of options, or instructions written by people."""
    price_seed: int = setting(0, at_least=0)
    """The seed of prices and of the price bounds in instructions."""
    split_seed: int = setting(233, at_least=0)
    """The seed of the permutation of goals for the splits (233 in the original)."""
    verl_agent_split: bool = False
    """Whether to use verl-agent's overlapping splits: 16 training and 128 validation workers each permute and price the
    goals."""
    observation_mode: text.Mode = "text"
    """``text`` does not show which options are chosen; ``text_rich`` marks clicked buttons. Affects prompts and state
    keys."""
    rendering: Literal["page", "compact"] = "page"
    """``compact`` shortens pages and actions for tiny models. State keys do not change."""
    suggestions: int = setting(0, at_least=0)
    """Number of listed searches, made of the instruction's words; 0: the policy writes its own searches."""
    show_attributes: bool = False
    """Whether item pages have an Attributes button."""
    keyword_commands: bool = False
    """Whether the searches <r>, <c>, <q> and <a> are commands. They list products that may not fit the instruction."""
    noun_tagger: Literal["auto", "spacy", "rules"] = "auto"
    """How to find nouns for the type match of the score. ``auto``: spacy if its model is installed, else rules."""
    horizon: int = setting(15, at_least=1, at_most=10_000)
    """Number of steps after which an episode is truncated."""

    label: ClassVar[str] = "WebShop"
    colour: ClassVar[str] = "#AA4499"
    counts_expert_steps: ClassVar[bool] = True
    dashes: ClassVar[tuple[float, ...]] = (4, 1.5)
    shown_settings: ClassVar[tuple[str, ...]] = ("data", "horizon", "observation_mode", "rendering", "suggestions")
    method_version: ClassVar[int] = 2
    reads_case: ClassVar[bool] = False
    untagged_tail: ClassVar[int] = 20

    def __post_init__(self) -> None:
        super().__post_init__()
        self.noun_tagger = choose_tagger(self.noun_tagger)
        if self.path and self.data != "original":
            raise UserError(f"env.path={self.path}: only env.data=original reads a folder, not env.data={self.data}")
        if self.data == "original" and self.missing() is None:
            actual = original.files_digest(self.path, self.catalogue)
            if self.data_digest not in ("", actual):
                folder = original.folder(self.path)
                raise UserError(f"env.data_digest={self.data_digest}: the files in {folder} have the digest {actual}")
            self.data_digest = actual
        if self.verl_agent_split and self.data == "original" and self.catalogue == "full":
            raise UserError("env.verl_agent_split needs env.catalogue=small: every worker prices all products")

    @property
    def free_text(self) -> str:
        """Return that the policy must write its searches, unless some are suggested."""
        return "" if self.suggestions else "env=webshop lists searches only with env.suggestions above 0, such as 3"

    @cached_property
    def prompt(self) -> PromptText:
        """Return the texts for the agent's prompt; the vocabulary is empty unless the rendering is compact."""
        return PromptText(
            role="You are an expert autonomous agent in the WebShop e-commerce environment.",
            rules=(
                "Find and buy the product that the task describes. search[query] looks for products; click[button] "
                "opens one, chooses an option, or follows a button; click[buy now] ends the episode."
            ),
            vocabulary=vocabulary(self._catalogue, self._instructions()) if self.rendering == "compact" else (),
        )

    def missing(self) -> Missing | None:
        """Return the first missing original file; None if nothing is missing or they are not used."""
        return original.missing(self.path, self.catalogue) if self.data == "original" else None

    def metadata(self) -> dict[str, Any]:
        """Return metadata for ``run.json``: the catalogue's source, digest, sizes and left-out entries, the tagger."""
        catalogue = self._catalogue
        return {
            "data": catalogue.source,
            "catalogue": catalogue.digest,
            "products": len(catalogue),
            "goals": len(self._goals(self.price_seed)),
            "left_out": dict(catalogue.left_out),
            "noun_tagger": self.noun_tagger,
        }

    def tasks(self, split: Split) -> Iterator[Task]:
        """Yield the goals of a split, each once.

        A goal that occurs in several disjoint splits belongs to the first of test, validation and train.
        """
        n_goals = len(self._goals(self.price_seed))
        if self.verl_agent_split:
            goals = splits.verl_agent_goals(split, n_goals, self.price_seed)
            yield from _distinct((self._task(self._goals(seed)[number], seed) for seed, number in goals), set())
            return
        seen: set[str] = set()
        for name, places in splits.disjoint_ranges(n_goals).items():
            goals, order = self._goals(self.price_seed), self._order
            tasks = _distinct((self._task(goals[order[i]], self.price_seed) for i in places), seen)
            if name == split:
                yield from tasks
                return
            for _ in tasks:  # adds their ids to ``seen``
                pass

    def start(self, tasks: Sequence[Task]) -> WebShopEpisodes:
        """Start one session for each goal. Raises ``UserError`` for a task of another catalogue."""
        return WebShopEpisodes([self.session(task) for task in tasks], self.view)

    def session(self, task: Task) -> Session:
        """Return a new session for a goal. Raises ``UserError`` for a task of another catalogue."""
        if task.data["catalogue"] != self._catalogue.digest:
            raise UserError(f"task {task.id} belongs to another catalogue than {self._catalogue.source}")
        prices, _ = self._prices_and_goals(task.data["prices"])
        return Session(self._shop, Goal.from_json(task.data["goal"]), prices)

    def parse_action(self, text: str) -> str | None:
        """Return the action in a response; its form depends on ``rendering``."""
        return self.view.parse_action(text)

    def __getstate__(self) -> dict[str, Any]:
        """Return only the settings, so that cached data is not sent to other processes."""
        return asdict(self)

    # --- cached parts --------------------------------------------------------------------------------------

    @cached_property
    def _catalogue(self) -> Catalogue:
        if self.data == "generated":
            return _generated_catalogue(self.products, self.catalogue_seed, self.colors, self.extra_options)
        if missing := self.missing():
            raise missing
        return original.catalogue(str(original.folder(self.path)), self.catalogue)

    @cached_property
    def _shop(self) -> Shop:
        nouns = noun_filter(self.noun_tagger)
        return Shop(self._catalogue, nouns, self.show_attributes, self.keyword_commands, self.price_seed)

    @cached_property
    def view(self) -> PageView:
        """Return the view that presents sessions to the policy."""
        view = CompactView if self.rendering == "compact" else PageView
        return view(self.observation_mode, self.suggestions)

    @cached_property
    def _order(self) -> list[int]:
        return permutation(len(self._goals(self.price_seed)), self.split_seed)

    @cached_property
    def _by_price_seed(self) -> dict[int, tuple[list[float], Sequence[Goal]]]:
        return {}

    def _prices_and_goals(self, seed: int) -> tuple[list[float], Sequence[Goal]]:
        """Return the prices by product number, and the goals. As in the original, prices are drawn before bounds."""
        if seed not in self._by_price_seed:
            rng = Random(seed)
            prices = draw_prices(self._catalogue, rng)
            make = human_goals if self.goals == "human" else SyntheticGoals
            self._by_price_seed[seed] = prices, make(self._catalogue, prices, rng)
        return self._by_price_seed[seed]

    def _goals(self, seed: int) -> Sequence[Goal]:
        return self._prices_and_goals(seed)[1]

    def _task(self, goal: Goal, price_seed: int) -> Task:
        data = {"goal": asdict(goal), "prices": price_seed, "catalogue": self._catalogue.digest}
        data = json.loads(json.dumps(data))  # turns tuples into lists, as in a stored task set
        return Task(content_id(json.dumps(data, sort_keys=True)), data, self._shop.product(goal.asin).category)

    def _instructions(self) -> Iterable[str]:
        """Yield instructions without options and price bounds, for the vocabulary."""
        if self.goals == "human":
            yield from (goal.instruction for goal in self._goals(self.price_seed))
            return
        instructions = (self._catalogue.instruction(number) for number in range(len(self._catalogue)))
        yield from (instruction[0] + " with" for instruction in instructions if instruction)


@lru_cache(maxsize=2)
def _generated_catalogue(products: int, seed: int, colors: int, extra_options: int) -> Catalogue:
    entries, attributes, human = generate(products, seed, colors, extra_options)
    return Catalogue(entries, attributes, human.items(), f"generated ({products} products, seed {seed})")


def _distinct(tasks: Iterable[Task], seen: set[str]) -> Iterator[Task]:
    """Yield the tasks whose ids are not in ``seen``, and add their ids to it."""
    for task in tasks:
        if task.id not in seen:
            seen.add(task.id)
            yield task
