"""The texts of the generated catalogue: families of products with their materials, attributes, options and prices."""

from __future__ import annotations

from dataclasses import dataclass

BRANDS = ("Aldermoor", "Bexley", "Corvane", "Dunmere", "Elmhart", "Farrow", "Glenby", "Hollis", "Istra", "Jorvik")
STYLES = ("classic", "everyday", "modern", "compact", "premium", "vintage", "portable", "deluxe")
TAILS = ("for home", "for travel", "a good gift", "new this year", "for daily use", "easy to return")
COLORS = ["beige", "black", "blue", "brown", "green", "grey", "navy", "pink", "purple", "red", "white", "yellow"]

EXTRA_OPTIONS = [
    ("pattern", ["plain", "striped", "dotted"]),
    ("finish", ["matte", "glossy", "satin"]),
    ("wrapping", ["unwrapped", "boxed", "ribboned"]),
    ("delivery", ["standard", "express", "pickup"]),
]
"""The additional options, with their values, of ``env.extra_options``."""


@dataclass(frozen=True)
class Family:
    """Products that share a shelf and are found by one search."""

    category: str
    query: str
    shelves: tuple[str, ...]
    kinds: tuple[str, ...]
    materials: tuple[str, ...]
    attributes: tuple[str, ...]
    options: dict[str, list[str]]  # name -> possible values
    prices: tuple[float, float]  # the lowest and the highest, in dollars
    colored: bool = True  # whether most products come in several colours


_SIZES = {"size": ["small", "medium", "large", "x-large"]}
_SHOES = {"size": ["6", "7", "8", "9", "10", "11"]}
_PACKS = {"size": ["1 count", "2 pack", "4 pack", "6 pack"]}

FAMILIES = (
    Family(
        "fashion", "women's dresses", ("Clothing, Shoes & Jewelry", "Women", "Clothing", "Dresses"),
        ("wrap dress", "maxi dress", "swing dress"), ("linen", "rayon", "cotton"),
        ("short sleeve", "long sleeve", "hand wash", "machine wash", "high waist", "elastic waist", "daily wear"),
        _SIZES, (15, 75),
    ),
    Family(
        "fashion", "men's shirts", ("Clothing, Shoes & Jewelry", "Men", "Clothing", "Shirts"),
        ("polo shirt", "dress shirt", "tank top"), ("cotton", "flannel", "polyester"),
        ("slim fit", "regular fit", "short sleeve", "long sleeve", "machine wash", "button closure", "fade resistant"),
        _SIZES, (12, 55),
    ),
    Family(
        "fashion", "women's sandals", ("Clothing, Shoes & Jewelry", "Women", "Shoes", "Sandals"),
        ("flat sandal", "slide sandal", "wedge sandal"), ("leather", "suede", "canvas"),
        ("ankle strap", "open toe", "arch support", "rubber sole", "memory foam", "non slip"),
        _SHOES, (20, 85),
    ),
    Family(
        "fashion", "men's boots", ("Clothing, Shoes & Jewelry", "Men", "Shoes", "Boots"),
        ("hiking boot", "work boot", "chelsea boot"), ("leather", "suede", "mesh"),
        ("steel toe", "lace closure", "water resistant", "rubber sole", "memory foam", "arch support"),
        _SHOES, (40, 140),
    ),
    Family(
        "garden", "living room sofas", ("Home & Kitchen", "Furniture", "Living Room Furniture", "Sofas & Couches"),
        ("sleeper sofa", "sectional sofa", "loveseat"), ("velvet", "leather", "linen"),
        ("mid century", "button tufted", "easy assemble", "solid wood", "high density", "stain resistant"),
        {"size": ["48 inch", "60 inch", "72 inch"]}, (220, 900),
    ),
    Family(
        "garden", "window curtains", ("Home & Kitchen", "Home Decor", "Window Treatments", "Curtains & Drapes"),
        ("blackout curtain", "sheer curtain", "cafe curtain"), ("linen", "cotton", "polyester"),
        ("machine washable", "energy efficient", "light blocking", "rod pocket", "easy install"),
        {"size": ["36 inch", "48 inch", "63 inch", "84 inch"]}, (10, 60),
    ),
    Family(
        "garden", "table lamps", ("Home & Kitchen", "Lamps & Light Fixtures", "Lamps & Shades", "Table Lamps"),
        ("desk lamp", "bedside lamp", "reading lamp"), ("brass", "ceramic", "glass"),
        ("touch control", "energy efficient", "height adjustable", "easy assemble", "eye caring", "usb port"),
        {"style": ["with bulb", "without bulb"]}, (15, 95),
    ),
    Family(
        "beauty", "oral care", ("Beauty & Personal Care", "Oral Care", "Toothbrushes & Accessories"),
        ("toothbrush", "dental floss", "tongue scraper"), ("bamboo", "nylon", "steel"),
        ("fresh breath", "sensitive teeth", "bpa free", "easy clean", "eco friendly", "soft bristle"),
        _PACKS, (4, 30),
    ),
    Family(
        "beauty", "eye makeup", ("Beauty & Personal Care", "Makeup", "Eyes"),
        ("eyeshadow palette", "liquid eyeliner", "brow pencil"), ("matte", "shimmer", "satin"),
        ("cruelty free", "paraben free", "long lasting", "highly pigmented", "easy apply", "water proof"),
        {"style": ["warm", "cool", "smoky"]}, (6, 45),
    ),
    Family(
        "beauty", "travel bottles", ("Beauty & Personal Care", "Tools & Accessories", "Refillable Containers"),
        ("travel bottle", "cosmetic jar", "spray bottle"), ("silicone", "glass", "aluminum"),
        ("leak proof", "bpa free", "easy carry", "travel size", "eco friendly", "easy clean"),
        _PACKS, (5, 28),
    ),
    Family(
        "grocery", "dried fruits", ("Grocery & Gourmet Food", "Produce", "Dried Fruits & Vegetables"),
        ("dried mango", "raisins", "banana chips"), ("mango", "berry", "banana"),
        ("sugar free", "gluten free", "non gmo", "freeze dried", "dairy free", "usda organic", "kosher certified"),
        {"flavor name": ["original", "cinnamon", "honey", "chili"]} | _PACKS, (5, 40), False,
    ),
    Family(
        "grocery", "ground coffee", ("Grocery & Gourmet Food", "Beverages", "Coffee, Tea & Cocoa", "Coffee"),
        ("ground coffee", "coffee pods", "cold brew"), ("arabica", "robusta", "espresso"),
        ("fair trade", "usda organic", "low acid", "caffeine free", "single origin", "non gmo"),
        {"flavor name": ["vanilla", "hazelnut", "caramel", "original"]} | _PACKS, (8, 48), False,
    ),
    Family(
        "electronics", "headphones", ("Electronics", "Headphones, Earbuds & Accessories", "Headphones"),
        ("gaming headset", "wireless earbuds", "studio headphones"), ("foam", "leather", "aluminum"),
        ("noise cancelling", "hands free", "fast charging", "stereo sound", "water resistant", "long lasting"),
        {"style": ["with mic", "without mic"]}, (15, 240),
    ),
    Family(
        "electronics", "tablet cases", ("Electronics", "Computers & Accessories", "Tablet Accessories", "Cases"),
        ("tablet case", "keyboard case", "tablet sleeve"), ("leather", "silicone", "canvas"),
        ("heavy duty", "light weight", "shock proof", "easy carry", "case cover", "scratch resistant"),
        {"size": ["8 inch", "10 inch", "11 inch", "12 inch"]}, (9, 60),
    ),
    Family(
        "electronics", "display cables", ("Electronics", "Television & Video", "Accessories", "Cables"),
        ("display cable", "charging cable", "audio cable"), ("copper", "nylon", "fiber"),
        ("gold plated", "high speed", "ultra hd", "plug play", "heavy duty", "fast charging"),
        {"size": ["3 feet", "6 feet", "10 feet", "25 feet"]}, (6, 45),
    ),
)  # fmt: skip
