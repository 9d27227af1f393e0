"""The light networks as files, the largest with a quarter of their channels: a wide layer takes memory and tests no more.

Whole, the weights of vgg19 are 575 MB; its layers and their order are what is tested.
"""

from pathlib import Path

from sample_models.light import random_light

LARGE = ("bvlc_alexnet", "vgg19", "zfnet512")


def light_file(name: str, folder: Path) -> Path:
    """Written into `folder` when first asked for."""
    file = folder / f"{name}.onnx"
    if not file.exists():
        file.write_bytes(random_light(name, narrow=4 if name in LARGE else 1).SerializeToString())
    return file
