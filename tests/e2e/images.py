"""images.py - PNG by zlib, and JPEG by the library that the server is linked to."""
import ctypes
import struct
import zlib

import numpy as np

RGB, FULL_420, PROGRESSIVE, ACCURATE = 0, 2, 16384, 4096  # of turbojpeg.h

turbo = ctypes.CDLL("libturbojpeg.so.0")
turbo.tjInitCompress.restype = turbo.tjInitDecompress.restype = ctypes.c_void_p
turbo.tjCompress2.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_int,
                              ctypes.POINTER(ctypes.c_void_p), ctypes.POINTER(ctypes.c_ulong), ctypes.c_int,
                              ctypes.c_int, ctypes.c_int]
turbo.tjDecompress2.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_ulong, ctypes.c_void_p, ctypes.c_int,
                                ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_int]
turbo.tjFree.argtypes = turbo.tjDestroy.argtypes = [ctypes.c_void_p]


def picture(height, width, seed=0):
    """Smooth, as photographs are, with some noise."""
    rng = np.random.default_rng(seed)
    y, x = np.mgrid[0:height, 0:width]
    waves = [127 + 100 * np.sin(x / (9 + 3 * c) + seed) * np.cos(y / (7 + 2 * c)) for c in range(3)]
    return np.clip(np.stack(waves, -1) + rng.normal(0, 6, (height, width, 3)), 0, 255).astype(np.uint8)


def chunk(name, data):
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))


def png(pixels, level=6):
    height, width, _ = pixels.shape
    rows = np.concatenate([np.zeros((height, 1), np.uint8), pixels.reshape(height, -1)], 1)
    return png_of(width, height, zlib.compress(rows.tobytes(), level))


def png_of(width, height, packed):
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)) +
            chunk(b"IDAT", packed) + chunk(b"IEND", b""))


def jpeg(pixels, quality=85, flags=0):
    height, width, _ = pixels.shape
    encoder, file, length = turbo.tjInitCompress(), ctypes.c_void_p(), ctypes.c_ulong()
    assert turbo.tjCompress2(encoder, pixels.tobytes(), width, 0, height, RGB, ctypes.byref(file), ctypes.byref(length),
                             FULL_420, quality, flags) == 0
    written = ctypes.string_at(file, length.value)
    turbo.tjFree(file)
    turbo.tjDestroy(encoder)
    return written


def jpeg_pixels(file, height, width):
    decoder, pixels = turbo.tjInitDecompress(), np.zeros((height, width, 3), np.uint8)
    assert turbo.tjDecompress2(decoder, file, len(file), pixels.ctypes.data, width, 0, height, RGB, ACCURATE) == 0
    turbo.tjDestroy(decoder)
    return pixels
