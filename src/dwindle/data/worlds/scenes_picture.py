"""The pictures of the world ``scenes``, drawn with Pillow from what is known of them. Any outputs
file that has the gold of a scene can be drawn again."""

import math
from typing import Any

import numpy as np
from PIL import Image, ImageDraw

_SIDE, _SCALE = 128, 2
_RGB = {
    "red": (205, 40, 40),
    "blue": (45, 80, 200),
    "green": (40, 150, 60),
    "yellow": (235, 215, 50),
    "orange": (240, 140, 30),
    "purple": (130, 50, 160),
    "pink": (240, 130, 180),
    "white": (240, 240, 240),
    "black": (30, 30, 30),
    "brown": (125, 80, 40),
    "grey": (128, 128, 128),
}
_GROUNDS = {
    "grass": (150, 180, 120),
    "sand": (215, 200, 160),
    "snow": (215, 225, 232),
    "water": (140, 175, 200),
    "stone": (165, 160, 155),
}
_CORNERS = {"square": 4, "triangle": 3, "diamond": 4, "hexagon": 6}
_TURNS = {"square": 45.0, "triangle": -90.0, "diamond": 0.0, "hexagon": 0.0, "star": -90.0}
_NOISE = 12


def draw(gold: dict[str, Any]) -> Image.Image:
    """The picture of a scene, (SIDE, SIDE) in RGB."""
    picture = Image.new("RGB", (_SIDE * _SCALE, _SIDE * _SCALE), _GROUNDS[gold["ground"]])
    for thing in [*gold["clutter"], *gold["specks"], *gold["things"]]:
        colour = tuple(max(0, min(255, c + thing["shade"])) for c in _RGB[thing["colour"]])
        radius = thing["radius"] * _SCALE
        corner = tuple(v * _SCALE - radius for v in thing["at"])
        sheet = _filling(colour, thing["pattern"], 2 * radius + 1)
        picture.paste(sheet, corner, _outline(thing["shape"], radius, thing["tilt"]))
    return _noisy(picture.resize((_SIDE, _SIDE), Image.Resampling.BOX), gold)


def _outline(shape: str, radius: int, tilt: float) -> Image.Image:
    """White where the shape is, on a sheet that it just fills."""
    mask = Image.new("L", (2 * radius + 1, 2 * radius + 1), 0)
    pen = ImageDraw.Draw(mask)
    if shape in ("circle", "ring"):
        pen.ellipse([0, 0, 2 * radius, 2 * radius], fill=255)
        if shape == "ring":
            edge = int(radius * 0.45)
            pen.ellipse([edge, edge, 2 * radius - edge, 2 * radius - edge], fill=0)
    elif shape == "cross":
        for turn in (0, 90):
            pen.polygon(_bar(radius, tilt + turn), fill=255)
    else:
        pen.polygon(_polygon(shape, radius, tilt), fill=255)
    return mask


def _polygon(shape: str, radius: int, tilt: float) -> list[tuple[float, float]]:
    corners = 10 if shape == "star" else _CORNERS[shape]
    radii = [radius * (0.45 if shape == "star" and i % 2 else 1.0) for i in range(corners)]
    angles = [math.radians(_TURNS[shape] + tilt + 360 * i / corners) for i in range(corners)]
    return [
        (radius + r * math.cos(a), radius + r * math.sin(a))
        for r, a in zip(radii, angles, strict=True)
    ]


def _bar(radius: int, turn: float) -> list[tuple[float, float]]:
    """One of the two bars of a cross."""
    c, s, width = math.cos(math.radians(turn)), math.sin(math.radians(turn)), 0.3
    corners = ((-1, -width), (1, -width), (1, width), (-1, width))
    return [
        (radius + radius * (c * u - s * v), radius + radius * (s * u + c * v)) for u, v in corners
    ]


def _filling(colour: tuple[int, ...], pattern: str, side: int) -> Image.Image:
    """A sheet of the colour, with stripes or dots of a darker (if it is dark, lighter) shade."""
    sheet = Image.new("RGB", (side, side), colour)
    pen, step = ImageDraw.Draw(sheet), 6 * _SCALE
    second = tuple(int(c * 0.5) if sum(colour) > 200 else c + 90 for c in colour)
    for place in range(0, side, step) if pattern != "plain" else ():
        if pattern == "striped":
            pen.rectangle([place, 0, place + step // 2 - 1, side], fill=second)
        else:
            for y in range(0, side, step):
                pen.ellipse([place, y, place + step // 2, y + step // 2], fill=second)
    return sheet


def _noisy(picture: Image.Image, gold: dict[str, Any]) -> Image.Image:
    """Grain, the same for the same picture: raw bits, whose sequence numpy promises to keep."""
    pixels = np.asarray(picture, dtype=np.int16)
    first = gold["things"][0]
    bits = np.random.PCG64([*first["at"], first["radius"], len(gold["regions"])]).random_raw(
        pixels.size
    )
    grain = (bits % (2 * _NOISE + 1)).astype(np.int16).reshape(pixels.shape) - _NOISE
    return Image.fromarray(np.clip(pixels + grain, 0, 255).astype(np.uint8))
