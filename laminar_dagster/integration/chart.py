"""A small chart as PNG, drawn without a plotting library: two lines over the last epochs, as a picture in Markdown."""

from __future__ import annotations

import base64
import struct
import zlib
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

WIDTH, HEIGHT, MARGIN = 480, 120, 8
PALETTE = ((255, 255, 255), (225, 228, 232), (37, 99, 235), (234, 120, 12))
GRID, FIRST_LINE = 1, 2
COLOURS = ("blue", "orange")

Pixels = npt.NDArray[np.uint8]
Series = Sequence[float | None]


def line_chart(*lines: Series) -> bytes:
    """Up to two lines over the same steps, each scaled to its own greatest value, from 0 at the bottom."""
    pixels = np.zeros((HEIGHT, WIDTH), dtype=np.uint8)
    for height in np.linspace(MARGIN, HEIGHT - MARGIN - 1, 4).astype(int):
        pixels[height, MARGIN : WIDTH - MARGIN] = GRID
    for number, line in enumerate(lines):
        _draw(pixels, line, FIRST_LINE + number)
    return _png(pixels)


def _draw(pixels: Pixels, line: Series, colour: int) -> None:
    known = [(step, value) for step, value in enumerate(line) if value is not None]
    if not known:
        return
    steps = [step / max(len(line) - 1, 1) for step, _ in known]
    greatest = max(max(value for _, value in known), 1e-9)
    across = np.arange(MARGIN, WIDTH - MARGIN)
    places = MARGIN + np.array(steps) * (WIDTH - 2 * MARGIN - 1)
    heights = np.interp(across, places, [max(value, 0) / greatest for _, value in known], left=np.nan, right=np.nan)
    rows = (HEIGHT - MARGIN - 1) - heights * (HEIGHT - 2 * MARGIN - 1)
    for column, row, before in zip(across, rows, [rows[0], *rows], strict=False):
        if not np.isnan(row):
            low, high = sorted((int(row), int(row if np.isnan(before) else before)))
            pixels[low : high + 2, column] = colour


def _png(pixels: Pixels) -> bytes:
    """One byte a pixel, an index into the palette."""
    height, width = pixels.shape
    rows = b"".join(b"\0" + row.tobytes() for row in pixels)
    header = struct.pack(">IIBBBBB", width, height, 8, 3, 0, 0, 0)
    palette = bytes(value for colour in PALETTE for value in colour)
    chunks = ((b"IHDR", header), (b"PLTE", palette), (b"IDAT", zlib.compress(rows, 9)), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(_chunk(kind, body) for kind, body in chunks)


def _chunk(kind: bytes, body: bytes) -> bytes:
    return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))


def in_markdown(png: bytes, title: str) -> str:
    return f"![{title}](data:image/png;base64,{base64.b64encode(png).decode()})"
