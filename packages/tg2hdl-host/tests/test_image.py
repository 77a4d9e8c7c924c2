"""Memory images: read back as written, refused when they are of another design, cut or damaged."""

import numpy as np
import pytest

from tg2hdl_host import MemoryImage, UnfitInputError, WrongDesignError

IDENTITY = 0x1122334455667788
CONTENTS = np.random.default_rng(0).integers(0, 256, 1000, dtype=np.uint8).tobytes()
IMAGE = MemoryImage(f"{IDENTITY:016x}", 1024, CONTENTS)


def flipped(data, place):
    return data[:place] + bytes((data[place] ^ 0x10,)) + data[place + 1 :]


DAMAGED = {
    "is not a memory image": flipped(IMAGE.to_bytes(), 3),
    "the header of the file is damaged": flipped(IMAGE.to_bytes(), 12),
    "the contents of the file are damaged": flipped(IMAGE.to_bytes(), 700),
    "the file has 999 bytes of contents, not 1,000": IMAGE.to_bytes()[:-1],
    "the file has 1,001 bytes of contents, not 1,000": IMAGE.to_bytes() + b"x",
    "the file is not a memory image": b"",
}


def test_read_back(tmp_path):
    IMAGE.save(tmp_path / "net.weights.img")
    found = MemoryImage.load(tmp_path / "net.weights.img")
    assert found == IMAGE
    found.check(f"{IDENTITY:016x}")
    with pytest.raises(
        WrongDesignError, match="belongs to the design 1122334455667788, not to 00000000000000aa"
    ):
        found.check("00000000000000aa")
    with pytest.raises(UnfitInputError, match=r"cannot read .*nowhere: No such file"):
        MemoryImage.load(tmp_path / "nowhere")


@pytest.mark.parametrize("text", DAMAGED)
def test_damaged_images(text):
    with pytest.raises(UnfitInputError, match=text):
        MemoryImage.parse(DAMAGED[text])
