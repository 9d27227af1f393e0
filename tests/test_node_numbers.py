"""A user's own numbers: what is read, and the sentence for each file that is refused."""

from __future__ import annotations

import math

import pytest

from workbench.presentation.view.boxes import Box, Boxes
from workbench.presentation.view.marking import overlay_data
from workbench.presentation.view.node_numbers import Column, NodeNumbers, NumbersError, read_numbers

NODES = ("a", "b", "c")


def read(text: str, file: str = "n.csv"):
    return read_numbers(file, text, NODES)


@pytest.mark.parametrize(
    "text",
    [
        "node,latency (us)\na,1.5\nb,-2\n",
        "\ufeffnode;latency [us]\r\na;1.5\r\n\r\nb; -2\r\n",
        "node\tlatency (us)\na\t1.5\nb\t-2",
        '{"a": {"latency (us)": 1.5}, "b": {"latency (us)": -2}}',
    ],
)
def test_csv_and_json_with_units(text):
    own = read(text)
    (column,) = own.columns
    assert (column.title, column.unit, dict(column.numbers)) == ("latency", "us", {"a": 1.5, "b": -2.0})
    assert own.rows("a") == [["latency", "1.5 us"]] and own.rows("c") == []
    assert own.sentence(NODES) == "n.csv has numbers for 2 nodes"


def test_json_of_plain_numbers_and_cells_left_empty():
    assert read('{"a": 3}').rows("a") == [["number", "3"]]
    own = read("node,x,y\na,1,\nb,,2\n")
    assert [dict(column.numbers) for column in own.columns] == [{"a": 1.0}, {"b": 2.0}]


def test_unknown_names_are_said():
    own = read("node,x\na,1\n" + "".join(f"q{i},1\n" for i in range(7)))
    assert own.sentence(NODES) == (
        "n.csv has numbers for 1 node; 7 names in it are not nodes of this model: q0, q1, q2, q3, q4 and 2 more"
    )


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("a,1\nb,2", "the first line of n.csv must be a heading such as node,latency (us)"),
        ("", "the first line of n.csv must be a heading such as node,latency (us)"),
        ("node\na", "the first line of n.csv must be a heading such as node,latency (us)"),
        ("node,x,x\na,1,2", "n.csv has two columns of one name in its first line; give each another name"),
        ("node,x\na,1,2", "line 2 of n.csv has 3 cells, but the heading has 2; quote commas"),
        ("node,x\na,1\n\na,2", "line 4 of n.csv names 'a' a second time; give each node one line"),
        (
            "node,x\na,fast",
            "line 2 of n.csv, column 'x': 'fast' is not a number; leave it empty where nothing is known",
        ),
        ("node,x\na,nan", "line 2 of n.csv, column 'x': 'nan' is not a number; leave it empty where nothing is known"),
        ("node,x\na,", "n.csv has no numbers; it needs a line for each node, such as conv1,3.5"),
        ("node,x\nq,1", "n.csv names no node of this model; its first name is 'q', and a node of the model is 'a'"),
        ("[1]", 'n.csv must hold an object with a number for each node, such as {"conv1": 3.5}'),
        ('{"a": 1, "a": 2}', "n.csv names 'a' a second time; give each node one entry"),
        ('{"a": true}', "'number' of 'a' in n.csv: 'True' is not a number; leave it empty where nothing is known"),
        ('{"a": NaN}', "'number' of 'a' in n.csv: 'nan' is not a number; leave it empty where nothing is known"),
        (
            '{"a": }',
            'n.csv is not JSON (Expecting value: line 1 column 7 (char 6)); write an object such as {"conv1": 3.5}',
        ),
        ("[" * 200_000, None),
    ],
)
def test_a_file_that_cannot_be_read_is_one_sentence(text, sentence):
    with pytest.raises(NumbersError) as error:
        read(text)
    assert sentence in (None, str(error.value)) and "\n" not in str(error.value)


def test_a_closed_group_has_the_largest_number_in_it():
    boxes = Boxes()
    boxes.add(Box("a", "node", []), ["a"])
    boxes.add(Box("group:g", "group", []), ["b", "c"])
    own = read("node,x (us)\na,1\nb,5\nc,9\ngone,100\n")
    (told,) = overlay_data(boxes, own, NODES)
    assert told == {
        "title": "x",
        "unit": "us",
        "origin": "from n.csv",
        "note": "n.csv has numbers for 3 nodes; 1 name in it is not a node of this model: gone",
        "low": "1 us",
        "high": "9 us",
        "boxes": [[0, 0.0, "1 us"], [1, 1.0, "9 us"]],
    }
    assert overlay_data(boxes, own, ())[0]["boxes"] == []


def test_errors_are_shaded_by_their_logarithms_and_what_is_not_finite_is_beyond():
    boxes = Boxes()
    for name in "abcde":
        boxes.add(Box(name, "node", []), [name])
    errors = {"a": 1e-6, "b": 1e-4, "c": 1e-2, "d": math.inf, "e": 0.0}
    column = Column("error", "", errors, {"d": "overflows", "c": "1.0e-02"}, logarithmic=True)
    (told,) = overlay_data(boxes, NodeNumbers("Accuracy", "relative", (column,)), "abcde")
    assert [round(share, 6) for _, share, _ in told["boxes"]] == [0, 0.5, 1, 1, 0]
    assert (told["low"], told["high"], told["note"]) == ("1e-06", "1.0e-02 or overflows", "")
    assert [text for *_, text in told["boxes"]] == ["1e-06", "0.0001", "1.0e-02", "overflows", "0"]
