"""Pages as text, in the original's observation modes ``text`` and ``text_rich``.

The original renders HTML and collects its text nodes. An empty text gives no node; a blank text gives a node unless it
contains a newline.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Literal

from bepo.envs.webshop.catalogue import Product
from bepo.envs.webshop.pages import BACK, BUY, NEXT, PREVIOUS, SUB_PAGES, Session

Mode = Literal["text", "text_rich"]
"""The observation modes: ``text_rich`` marks buttons, clicked ones differently."""
Node = tuple[Literal["plain", "button", "label", "link"], str]
"""The type and the text of a node. A label is the value of an option; a link opens a product."""
SEPARATOR = " [SEP] "
"""The separator of nodes in the mode ``text``."""
_NAMES = {BACK: "Back to Search", PREVIOUS: "< Prev", NEXT: "Next >", BUY: "Buy Now"}
_INDENT = {"button": "", "label": "  ", "link": "\n"}
_BLANKS = " \t\n\r\f"


def page(session: Session, mode: Mode) -> str:
    """Return the text of the current page without the instruction: it does not depend on the goal."""
    nodes = _nodes(session)
    if mode == "text":
        return SEPARATOR.join(text.strip() for _, text in nodes)
    return "".join(_marked(session, nodes))


def observation(session: Session, mode: Mode) -> str:
    """Return the original's observation: the text of the current page with the instruction."""
    search = session.page == "search"
    head = [*(["WebShop"] if search else []), "Instruction:", session.goal.instruction]
    if mode == "text":
        return SEPARATOR.join([*head, page(session, mode)])
    head[-2] += " " if search else ""
    clicked, body = _marked(session, _nodes(session))
    return clicked + "".join(line + "\n" for line in head) + body


def _nodes(session: Session) -> list[Node]:
    return [(kind, " " if not text.strip(_BLANKS) else text) for kind, text in _raw_nodes(session) if _is_node(text)]


def _is_node(text: str) -> bool:
    return text != "" and (bool(text.strip(_BLANKS)) or "\n" not in text)


def _raw_nodes(session: Session) -> Iterator[Node]:
    if session.page == "search":
        yield "button", "Search"
    elif session.page == "results":
        yield "button", _NAMES[BACK]
        yield "plain", f"Page {session.page_number} (Total results: {len(session.hits)})"
        if session.page_number > 1:
            yield "button", _NAMES[PREVIOUS]
        yield "button", _NAMES[NEXT]
        for product in session.listed:
            yield "link", product.asin
            yield "plain", product.title
            yield "plain", product.price_text
    elif session.page == "done":
        yield "plain", "Thank you for shopping with us!"
    else:
        yield "button", _NAMES[BACK]
        yield "button", _NAMES[PREVIOUS]
        yield from _item(session) if session.page == "item" else _sub_page(session.page, session.product)


def _item(session: Session) -> Iterator[Node]:
    product = session.product
    for name, values in product.options.items():
        yield "plain", name
        for value in values:
            yield "label", value
    yield "plain", product.title
    yield "plain", f"Price: {product.price_text}"
    yield "plain", "Rating: N.A."
    for sub_page in SUB_PAGES if session.shop.show_attributes else SUB_PAGES[:-1]:
        yield "button", sub_page.capitalize()
    yield "button", _NAMES[BUY]


def _sub_page(name: str, product: Product) -> Iterator[Node]:
    if name == "description":
        yield "plain", product.description
    elif name == "features":
        for bullet in product.bullets:
            yield "plain", " " + bullet
    elif name == "attributes":
        for attribute in product.attributes:
            yield "plain", " " + attribute
        for text in (product.category, product.query, product.product_category):
            yield "plain", text


def _marked(session: Session, nodes: list[Node]) -> tuple[str, str]:
    """Return ``(sentences about the chosen options, last node first; one line for each node)``."""
    # The original looks for an option's value in the page's address, which contains the chosen options.
    address = f"{session.query}/{session.page_number}/{json.dumps(session.options)}"
    lines, clicked = [], ""
    for kind, text in nodes:
        if kind == "label" and f'"{text}"' in address:
            clicked = f"You have clicked {text}.\n" + clicked
            lines.append(f"  [clicked button] {text} [clicked button_]")
        elif kind == "link" and text in session.visited:
            lines.append(f"\n[clicked button] {text} [clicked button_]")
        elif kind == "plain":
            lines.append(text)
        else:
            lines.append(_INDENT[kind] + f"[button] {text} [button_]")
    return clicked, "".join(line + "\n" for line in lines)
