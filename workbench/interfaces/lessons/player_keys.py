"""The keys of a lesson, on the page and in its HTML file, as their help lists them."""

PLAYER_KEYS = (
    ("Page Down, \u2192", "the next stop; after the last one the next lesson"),
    ("Page Up, \u2190", "the stop before"),
    ("A", "the answer"),
    ("P", "present: larger letters, the notes, a clock"),
    ("N", "the notes, while presenting"),
    ("Escape", "ends presenting, and its clock"),
    ("Space", "the whole graph, after a click on it; + and - zoom"),
    ("?", "these keys"),
)
