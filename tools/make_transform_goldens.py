"""Writes tests/golden/transforms.safetensors: images that Pillow 12.1.0 makes of ours, and what torchvision and timm
decide for given draws: make_transform_goldens.py TIMM [OUT]

Python is that of tools/setup_peers.sh. TIMM is the unpacked wheel of timm 1.0.31, three of whose files are read. Inputs
are made by formulas, here and in tests/support/made_image.h; no picture is kept that anybody took.
"""
import importlib.util
import math
import pathlib
import random
import sys

import numpy as np
import PIL
import torch
from PIL import Image, ImageEnhance, ImageFilter, ImageOps
from safetensors.numpy import save_file
from torchvision.transforms import InterpolationMode, v2
from torchvision.transforms.v2 import functional as F

assert PIL.__version__ == "12.1.0", PIL.__version__
FILTERS = {"nearest": Image.NEAREST, "bilinear": Image.BILINEAR, "bicubic": Image.BICUBIC}
FILL = {3: (124, 116, 104), 1: 124}


def made_image(height, width, channels):
    """Noise on two thirds of the diagonals, a slope on the rest."""
    y, x, c = np.meshgrid(np.arange(height), np.arange(width), np.arange(channels), indexing="ij")
    mixed = (y * 73856093 ^ x * 19349663 ^ c * 83492791) & 0xFFFFFFFF
    noise = (mixed * 2654435761 & 0xFFFFFFFF) >> 24
    slope = (255 * x // max(width - 1, 1) + 3 * y + 40 * c) % 256
    pixels = np.where((x + y) % 3 == 0, slope, noise).astype(np.uint8)
    return Image.fromarray(pixels[:, :, 0] if channels == 1 else pixels)


def dull_image(height, width, channels):
    """Few values and little contrast, for what looks at the histogram."""
    pixels = np.asarray(made_image(height, width, channels))
    return Image.fromarray((pixels // 16 * 5 + 60).astype(np.uint8))


class Draws:
    """Uniform numbers as data/draws.h has them: Philox4x32-10 of (seed ^ augmentation, key, 64 k + d)."""

    def __init__(self, seed, key, transform):
        self.seed, self.key, self.next = seed ^ 0x6175676D656E, key, 64 * transform

    def block(self):
        counter = [self.next & 0xFFFFFFFF, self.next >> 32, self.key & 0xFFFFFFFF, self.key >> 32]
        key = [self.seed & 0xFFFFFFFF, self.seed >> 32]
        for _ in range(10):
            a, b = 0xD2511F53 * counter[0], 0xCD9E8D57 * counter[2]
            counter = [b >> 32 ^ counter[1] ^ key[0], b & 0xFFFFFFFF, a >> 32 ^ counter[3] ^ key[1], a & 0xFFFFFFFF]
            key = [(key[0] + 0x9E3779B9) & 0xFFFFFFFF, (key[1] + 0xBB67AE85) & 0xFFFFFFFF]
        self.next += 1
        return counter

    def bits(self):
        words = self.block()
        return words[1] << 32 | words[0]

    def uniform(self, low=0.0, high=1.0):
        return low + (high - low) * ((self.bits() >> 11) * 2.0**-53)

    def below(self, n):
        return self.bits() * n >> 64

    def normal(self):
        """Box and Muller of one block."""
        words = self.block()
        radius, turn = ((words[2 * i + 1] << 32 | words[2 * i]) >> 11 for i in range(2))
        return math.sqrt(-2 * math.log1p(-radius * 2.0**-53)) * math.cos(2 * math.pi * turn * 2.0**-53)


class Goldens:
    def __init__(self):
        self.arrays = {}

    def add(self, key, value):
        array = np.asarray(value)
        self.arrays[key] = np.ascontiguousarray(array[:, :, None] if array.dtype == np.uint8 and array.ndim == 2 else array)


def resample(golden):
    sizes = [(1, 1, 1, 1), (1, 1, 5, 7), (5, 7, 1, 1), (1, 9, 3, 4), (9, 1, 4, 3), (2, 2, 3, 3), (16, 16, 16, 16),
             (16, 9, 16, 5), (16, 9, 7, 9), (97, 131, 32, 24), (131, 97, 7, 60), (64, 48, 3, 3)]
    dice = random.Random(7)
    while len(sizes) < 60:
        sizes.append((dice.randint(1, 90), dice.randint(1, 90), dice.randint(1, 34), dice.randint(1, 34)))
    golden.add("resample.sizes", np.array(sizes, np.int64))
    for i, (height, width, to_height, to_width) in enumerate(sizes):
        for name in ("bilinear", "bicubic"):
            for channels in (1, 3):
                image = made_image(height, width, channels)
                golden.add(f"resample.{i}.{name}.{channels}", image.resize((to_width, to_height), FILTERS[name]))


def enhance(kind):
    return lambda image, factor: kind(image).enhance(factor)


def rotate(filter):
    return lambda image, angle: image.rotate(angle, FILTERS[filter], fillcolor=FILL[len(image.getbands())])


def affine(filter, matrix_of):
    return lambda image, amount: image.transform(image.size, Image.AFFINE, matrix_of(amount), FILTERS[filter],
                                                 fillcolor=FILL[len(image.getbands())])


def operations(golden):
    """Each of these for two images: "OPERATION.ARGUMENT.CHANNELS"."""
    table = {
        "invert": (lambda image, _: ImageOps.invert(image), [0]),
        "solarize": (ImageOps.solarize, [0, 128, 200, 256]),
        "posterize": (ImageOps.posterize, [1, 4, 7, 8]),
        "auto_contrast": (lambda image, _: ImageOps.autocontrast(image), [0]),
        "equalize": (lambda image, _: ImageOps.equalize(image), [0]),
        "brightness": (enhance(ImageEnhance.Brightness), [0, 0.1, 0.73, 1, 1.9]),
        "contrast": (enhance(ImageEnhance.Contrast), [0, 0.1, 0.73, 1, 1.9]),
        "color": (enhance(ImageEnhance.Color), [0, 0.1, 0.73, 1, 1.9]),
        "sharpness": (enhance(ImageEnhance.Sharpness), [0, 0.1, 0.73, 1, 1.9]),
        "hue": (F.adjust_hue, [-0.5, -0.1, 0, 0.05, 0.4]),
        "blur": (lambda image, radius: image.filter(ImageFilter.GaussianBlur(radius)), [0.1, 0.5, 1, 1.7, 2, 9]),
    }
    for filter in FILTERS:
        table[f"rotate.{filter}"] = rotate(filter), [0, 9, -27, 90, 135, 180]
        table[f"shear_x.{filter}"] = affine(filter, lambda v: (1, v, 0, 0, 1, 0)), [0.09, -0.27]
        table[f"shear_y.{filter}"] = affine(filter, lambda v: (1, 0, 0, v, 1, 0)), [0.09, -0.27]
        table[f"translate_x.{filter}"] = affine(filter, lambda v: (1, 0, v, 0, 1, 0)), [3, -5.5]
        table[f"translate_y.{filter}"] = affine(filter, lambda v: (1, 0, 0, 0, 1, v)), [3, -5.5]
    for name, (operation, arguments) in table.items():
        golden.add(f"{name}.arguments", np.array(arguments, np.float64))
        for i, argument in enumerate(arguments):
            for channels in (1, 3):
                if name == "color" and channels == 1:
                    continue
                image = (dull_image if name in ("auto_contrast", "equalize") else made_image)(19, 26, channels)
                golden.add(f"{name}.{i}.{channels}", operation(image, argument))
    golden.add("gray.0.3", made_image(19, 26, 3).convert("L").convert("RGB"))
    flat = Image.new("RGB", (5, 4), (7, 7, 9))
    golden.add("flat.auto_contrast", ImageOps.autocontrast(flat))
    golden.add("flat.equalize", ImageOps.equalize(flat))


def resized(golden):
    """Short side and central crop, as torchvision and timm have them, on Pillow's images."""
    cases = [(40, 61, 17, 15), (61, 40, 17, 17), (33, 33, 20, 12), (30, 91, 8, 8), (25, 64, 16, 13), (26, 40, 16, 11)]
    golden.add("eval.cases", np.array(cases, np.int64))
    for i, (height, width, short, crop) in enumerate(cases):
        image = F.resize(made_image(height, width, 3), [short], InterpolationMode.BICUBIC)
        golden.add(f"resize.{i}", image)
        golden.add(f"eval.{i}", F.center_crop(image, [crop, crop]))
    golden.add("center_crop.padded", F.center_crop(made_image(9, 20, 3), [13, 13]))
    for mode in ("constant", "reflect"):
        golden.add(f"pad.{mode}", F.pad(made_image(7, 9, 3), [4] * 4, padding_mode=mode))


class PatchedDraws:
    """The generators of torchvision and timm replaced by ours, in the order that they are asked."""

    def __init__(self, draws):
        class Empty:
            def uniform_(self, low, high):
                return torch.tensor(draws.uniform(float(low), float(high)), dtype=torch.float64)

        def randint(low, high=None, size=None):
            return torch.tensor(low + draws.below(high - low) if isinstance(high, int) else draws.below(low))

        self.stand_ins = [
            (torch, "empty", lambda *_: Empty()), (torch, "randint", randint),
            (torch, "rand", lambda *_: torch.tensor(draws.uniform(), dtype=torch.float64)),
            (random, "random", draws.uniform), (random, "uniform", draws.uniform),
            (random, "randint", lambda low, high: low + draws.below(high - low + 1)),
            (random, "gauss", lambda mean, deviation: mean + deviation * draws.normal()),
            (np.random, "choice", lambda values, count, **_: [values[draws.below(len(values))] for _ in range(count)])]

    def __enter__(self):
        self.kept = [(module, name, getattr(module, name)) for module, name, _ in self.stand_ins]
        for stand_in in self.stand_ins:
            setattr(*stand_in)

    def __exit__(self, *_):
        for kept in self.kept:
            setattr(*kept)


def augmented(golden, timm):
    """Images that whole augmentations make: "DIALECT.KEY.CHANNELS"."""
    hparams = {"img_mean": FILL[3], "interpolation": Image.BICUBIC}
    dialects = {
        "augment.tv": v2.RandAugment(2, 9, fill=FILL[3]),
        "augment.wide": v2.TrivialAugmentWide(interpolation=InterpolationMode.BILINEAR, fill=FILL[3]),
        "augment.timm": timm["auto_augment"].rand_augment_transform("rand-m9-mstd0.5-inc1", hparams)}
    for name, augment in dialects.items():
        for key in range(40):
            image = made_image(11, 14, 3)
            with PatchedDraws(Draws(5, key, 4)):
                golden.add(f"{name}.{key}", augment(image))


def crops(golden):
    """RandomResizedCrop's boxes: key, height, width -> top, left, height, width; aspect ratios in f64 as ours."""
    rows = []
    for scale in ((0.08, 1.0), (0.9, 1.0)):
        transform = v2.RandomResizedCrop(224, scale=scale)
        transform._log_ratio = torch.log(torch.tensor(transform.ratio, dtype=torch.float64))
        for key in range(60):
            height, width = [(375, 500), (500, 333), (20, 300), (300, 20), (28, 28), (1, 1)][key % 6]
            with PatchedDraws(Draws(5, key, 1)):
                box = transform.make_params([Image.new("L", (width, height))])
            rows.append([scale[0] * 100, key, height, width, box["top"], box["left"], box["height"], box["width"]])
    golden.add("random_resized_crop", np.array(rows, np.int64))


def erased(golden, timm):
    """RandomErasing's boxes, timm's and torchvision's."""
    for name in ("timm", "torchvision"):
        rows = []
        for key in range(60):
            height, width = [(224, 224), (28, 28), (32, 48)][key % 3]
            with PatchedDraws(Draws(6, key, 8)):
                if name == "timm":
                    image = torch.zeros(1, height, width)
                    eraser = timm["random_erasing"].RandomErasing(0.5, mode="const", device="cpu")
                    timm["random_erasing"]._get_pixels = lambda *_, **__: 1.0
                    eraser(image)
                    where = image[0].nonzero().numpy()
                else:
                    where = np.zeros((0, 2))
                    if random.random() <= 0.5:
                        eraser = v2.RandomErasing(p=1, scale=(0.02, 0.33), ratio=(0.3, 3.3))
                        eraser._log_ratio = torch.log(torch.tensor(eraser.ratio, dtype=torch.float64))
                        box = eraser.make_params([Image.new("L", (width, height))])
                        if box["v"] is not None:
                            where = np.array([[box["i"], box["j"]],
                                              [box["i"] + box["h"] - 1, box["j"] + box["w"] - 1]])
            box = [0, 0, 0, 0]
            if len(where):
                top, left = where.min(0)
                box = [top, left, *(where.max(0) - where.min(0) + 1)]
            rows.append([key, height, width, *box])
        golden.add(f"erasing.{name}", np.array(rows, np.int64))


def cut_boxes(golden, timm):
    """CutMix's box and corrected lambda: lambda, height, width, centre y, centre x -> box, lambda."""
    rows, corrected = [], []
    dice = random.Random(3)
    for i in range(60):
        height, width = [(224, 224), (28, 28), (33, 49)][i % 3]
        share, y, x = dice.random(), dice.randrange(height), dice.randrange(width)
        kept, answers = np.random.randint, [y, x]
        np.random.randint = lambda *_, **__: answers.pop(0)
        (top, bottom, left, right), share_left = timm["mixup"].cutmix_bbox_and_lam((1, 3, height, width), share)
        np.random.randint = kept
        rows.append([height, width, y, x, top, left, bottom - top, right - left])
        corrected.append([share, share_left])
    golden.add("cutmix.boxes", np.array(rows, np.int64))
    golden.add("cutmix.lambdas", np.array(corrected, np.float64))


def strengths(golden, timm):
    """What the dialects of RandAugment make of a magnitude."""
    augment, hparams = timm["auto_augment"], {"translate_const": 100, "img_mean": FILL[3]}
    names = [name for name in augment._RAND_INCREASING_TRANSFORMS if augment.LEVEL_TO_ARG[name]]
    rows = []
    for magnitude in (0.0, 3.3, 9.0, 9.4, 10.0):
        for negate in (0, 1):
            kept, random.random = random.random, lambda: negate
            rows.append([augment.LEVEL_TO_ARG[name](magnitude, hparams)[0] for name in names])
            random.random = kept
    golden.add("strength.timm", np.array(rows, np.float64))  # AutoContrast, Equalize and Invert have none
    for name, kind in (("tv", v2.RandAugment), ("wide", v2.TrivialAugmentWide)):
        rows = []
        for bin in (0, 9, 20, 30):
            found = [fn(31, 28, 48) for fn, _ in kind._AUGMENTATION_SPACE.values()]
            rows.append([float(values[bin]) for values in found if values is not None])
        golden.add(f"strength.{name}", np.array(rows, np.float64))


def read_timm(folder):
    modules = {}
    for name in ("auto_augment", "mixup", "random_erasing"):
        spec = importlib.util.spec_from_file_location(name, pathlib.Path(folder) / "timm" / "data" / f"{name}.py")
        modules[name] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(modules[name])
    return modules


def main():
    timm, golden = read_timm(sys.argv[1]), Goldens()
    out = sys.argv[2] if len(sys.argv) > 2 else pathlib.Path(__file__).parents[1] / "tests/golden/transforms.safetensors"
    for part in (resample, operations, resized, crops):
        part(golden)
    for part in (augmented, erased, cut_boxes, strengths):
        part(golden, timm)
    values = torch.arange(256, dtype=torch.uint8).reshape(1, 1, 256).repeat(3, 1, 1)
    from torchvision.transforms.v2 import functional as v2
    scaled = v2.to_dtype(values, torch.float32, scale=True)
    golden.add("normalize", v2.normalize(scaled, [0.485, 0.456, 0.406], [0.229, 0.224, 0.225]).numpy())
    save_file(golden.arrays, out)


main()
