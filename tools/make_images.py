"""Golden images: files made by formulas and what Pillow decodes them to; and archives by Python's tarfile.

  python tools/make_images.py            # writes tests/golden/images.safetensors and archives.safetensors

Needs Pillow 12.1.0 (tools/peers.txt).

Keys are "NAME.file" (the bytes), "NAME.rgb" (height, width, 3) and "NAME.gray" (height, width): Pillow's pixels after
exif_transpose, by convert("RGB") and of that convert("L"). Files with an EXIF orientation also have "NAME.stored", without
exif_transpose. "jpeg_NAME.half" and ".quarter" are RGB at 1/2 and 1/4 of the size, as `draft` lets libjpeg decode them. 16-bit
files are decoded by their definition, round(v / 257): Pillow cuts them off.
"""

import io
import pathlib
import struct
import tarfile
import zlib

import numpy as np
import PIL
from PIL import Image, ImageOps
from safetensors.numpy import save_file

HEIGHT, WIDTH = 37, 51  # neither is whole blocks of 8 or 16


def plane(k, height=HEIGHT, width=WIDTH):
    """Numbers of 16 bits: slopes, with edges and noise on them."""
    y, x = np.mgrid[0:height, 0:width].astype(np.int64)
    slope = 900 * x + 700 * (k + 1) * y
    edges = 21000 * ((x // 5 + y // (3 + k)) % 2)
    noise = (x * x * 1103 + y * y * 7919 + x * y * (k * 12345 + 331)) % 9000
    return ((slope + edges + noise) % 65536).astype(np.uint16)


def planes(count, **size):
    return np.stack([plane(k, **size) for k in range(count)], -1)


def picture(mode, **size):
    count = len(Image.new(mode, (1, 1)).getbands())
    pixels = (planes(count, **size) >> 8).astype(np.uint8)
    return Image.fromarray(pixels[:, :, 0] if count == 1 else pixels, mode)


def saved(image, kind, **options):
    out = io.BytesIO()
    image.save(out, kind, **options)
    return out.getvalue()


def exif(orientation, big_endian):
    """A TIFF header and a directory of one entry."""
    order = ">" if big_endian else "<"
    return (b"Exif\0\0" + (b"MM\0*" if big_endian else b"II*\0") +
            struct.pack(order + "IHHHIHHI", 8, 1, 0x0112, 3, 1, orientation, 0, 0))


def ycck():
    """A CMYK file whose Adobe marker says that its first three planes are luma and chroma."""
    file = bytearray(saved(picture("CMYK"), "JPEG", quality=85))
    marker = file.index(b"\xff\xee\x00\x0eAdobe")
    file[marker + 15] = 2
    return bytes(file)


def chunk(name, data):
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))


def rows(samples, bits):
    """(height, width, channels) as unfiltered PNG rows."""
    out = b""
    for row in samples.reshape(len(samples), -1):
        packed = row.astype(">u2").tobytes() if bits == 16 else bytes(row.astype(np.uint8))
        if bits < 8:
            each = np.unpackbits(row.astype(np.uint8)[:, None], axis=1)[:, 8 - bits:]
            packed = np.packbits(each.reshape(-1)).tobytes()
        out += b"\0" + packed
    return out


def png(samples, bits, colour_type, interlaced=False, chunks=()):
    """A PNG file of kinds that Pillow does not write."""
    height, width = samples.shape[:2]
    header = struct.pack(">IIBBBBB", width, height, bits, colour_type, 0, 0, interlaced)
    passes = [(0, 0, 8, 8), (0, 4, 8, 8), (4, 0, 8, 4), (0, 2, 4, 4), (2, 0, 4, 2), (0, 1, 2, 2), (1, 0, 2, 1)]
    data = (b"".join(rows(samples[y::dy, x::dx], bits) for y, x, dy, dx in passes) if interlaced
            else rows(samples, bits))
    parts = [(b"IHDR", header), *chunks, (b"IDAT", zlib.compress(data, 9)), (b"IEND", b"")]
    return b"\x89PNG\r\n\x1a\n" + b"".join(chunk(*part) for part in parts)


def files():
    rgb, palette = picture("RGB"), picture("RGB").quantize(37)
    out = {
        "jpeg_444": saved(rgb, "JPEG", quality=90, subsampling=0),
        "jpeg_422": saved(rgb, "JPEG", quality=75, subsampling=1),
        "jpeg_420": saved(rgb, "JPEG", quality=75, subsampling=2),
        "jpeg_restarts": saved(rgb, "JPEG", quality=30, subsampling=2, restart_marker_blocks=3),
        "jpeg_progressive": saved(rgb, "JPEG", quality=80, subsampling=2, progressive=True),
        "jpeg_gray": saved(picture("L"), "JPEG", quality=80),
        "jpeg_cmyk": saved(picture("CMYK"), "JPEG", quality=85),
        "jpeg_ycck": ycck(),
        "png_gray_1": png(planes(1) >> 15, 1, 0),
        "png_gray_2_interlaced": png(planes(1) >> 14, 2, 0, interlaced=True),
        "png_gray_4": png(planes(1) >> 12, 4, 0),
        "png_gray_alpha": saved(picture("LA"), "PNG"),
        "png_rgb_interlaced": png(planes(3) >> 8, 8, 2, interlaced=True),
        "png_rgb_alpha": saved(picture("RGBA"), "PNG"),
        "png_palette_4": saved(rgb.quantize(11), "PNG", bits=4),
        "png_palette_transparent": saved(palette, "PNG", transparency=bytes(range(0, 74, 2))),
    }
    small = picture("RGB", height=19, width=29)
    for number in range(1, 9):
        out[f"exif_{number}"] = saved(small, "JPEG", quality=75, subsampling=2,
                                      exif=exif(number, big_endian=number % 2 == 0))
    out["exif_png"] = saved(small, "PNG", exif=exif(6, big_endian=True)[6:])
    return out


def files_of_16_bits():
    """{name: (file, its pixels)}"""
    gray, colours = planes(1), planes(4)
    gray[0, :7, 0] = [0, 128, 129, 256, 385, 386, 32768]  # around the halves
    shown = [np.rint(samples / 257).astype(np.uint8) for samples in (gray, colours)]
    return {"png_gray_16": (png(gray, 16, 0), Image.fromarray(shown[0][:, :, 0], "L")),
            "png_rgb_alpha_16": (png(colours, 16, 6), Image.fromarray(shown[1][:, :, :3], "RGB"))}


def archive(format, extra_names=()):
    """An archive of that format, and its regular files as lines "NAME OFFSET BYTES"."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=format) as tar:
        def add(name, type=tarfile.REGTYPE, contents=b"", target=""):
            member = tarfile.TarInfo(name)
            member.type, member.size, member.linkname = type, len(contents), target
            tar.addfile(member, io.BytesIO(contents))

        add("photos", tarfile.DIRTYPE)
        add("photos/0001.jpg", contents=b"one")
        add("./photos/0001.cls", contents=b"7")
        add("photos/link.jpg", tarfile.SYMTYPE, target="0001.jpg")
        add("photos/hard.jpg", tarfile.LNKTYPE, target="photos/0001.jpg")
        add("photos/" + "d" * 90 + "/" + "n" * 60 + ".png", contents=bytes(513))  # beyond 100 bytes: ustar has a prefix
        for name in extra_names:
            add(name, contents=name.encode())
        add("last.bin", contents=bytes(512))
    out.seek(0)
    with tarfile.open(fileobj=out) as tar:
        lines = [f"{member.name.removeprefix('./')} {member.offset_data} {member.size}\n" for member in tar if member.isreg()]
    return out.getvalue(), "".join(lines)


def archives():
    long = "/".join(["folder" * 10] * 5) + "/\u00e4.jpg"
    return {"ustar": archive(tarfile.USTAR_FORMAT), "gnu": archive(tarfile.GNU_FORMAT, [long]),
            "pax": archive(tarfile.PAX_FORMAT, [long, "\u00e4.png"])}


def main():
    assert PIL.__version__ == "12.1.0", PIL.__version__
    decoded = {name: (file, Image.open(io.BytesIO(file))) for name, file in files().items()} | files_of_16_bits()
    tensors = {}
    for name, (file, image) in decoded.items():
        image.load()
        upright = ImageOps.exif_transpose(image).convert("RGB")
        tensors[name + ".file"] = np.frombuffer(file, np.uint8)
        tensors[name + ".rgb"] = np.asarray(upright)
        tensors[name + ".gray"] = np.asarray(upright.convert("L"))
        for key, divisor in (("half", 2), ("quarter", 4)) if name.startswith("jpeg") else ():
            smaller = Image.open(io.BytesIO(file))
            smaller.draft(smaller.mode, (WIDTH // divisor, HEIGHT // divisor))
            tensors[f"{name}.{key}"] = np.asarray(smaller.convert("RGB"))
        if name.startswith("exif"):
            tensors[name + ".stored"] = np.asarray(image.convert("RGB"))
    packed = {}
    for name, (file, listing) in archives().items():
        packed[name + ".file"] = np.frombuffer(file, np.uint8)
        packed[name + ".listing"] = np.frombuffer(listing.encode(), np.uint8)
    folder = pathlib.Path(__file__).parent.parent / "tests/golden"
    for target, contents in [(folder / "images.safetensors", tensors), (folder / "archives.safetensors", packed)]:
        save_file({name: np.ascontiguousarray(tensor) for name, tensor in contents.items()}, target)
        print(f"{target}: {target.stat().st_size} bytes")


if __name__ == "__main__":
    main()
