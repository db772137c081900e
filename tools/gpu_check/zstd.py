"""Decompresses Zstandard with libzstd.so.1, which most systems have although they lack the program zstd."""
import ctypes
import io


class _Buffer(ctypes.Structure):
    """ZSTD_inBuffer and ZSTD_outBuffer."""
    _fields_ = [("data", ctypes.c_void_p), ("size", ctypes.c_size_t), ("position", ctypes.c_size_t)]


def _load():
    """Raises OSError without the library."""
    library = ctypes.CDLL("libzstd.so.1")
    library.ZSTD_createDStream.restype = ctypes.c_void_p
    library.ZSTD_freeDStream.argtypes = [ctypes.c_void_p]
    library.ZSTD_decompressStream.argtypes = [ctypes.c_void_p, ctypes.POINTER(_Buffer), ctypes.POINTER(_Buffer)]
    library.ZSTD_decompressStream.restype = ctypes.c_size_t
    library.ZSTD_isError.argtypes = [ctypes.c_size_t]
    library.ZSTD_getErrorName.argtypes = [ctypes.c_size_t]
    library.ZSTD_getErrorName.restype = ctypes.c_char_p
    return library


class Reader(io.RawIOBase):
    """The decompressed content of a file, for a sequential reader."""

    INPUT_BYTES = 1 << 20

    def __init__(self, path):
        super().__init__()
        self._library = _load()
        self._stream = self._library.ZSTD_createDStream()
        self._file = open(path, "rb")
        self._held = None  # keeps the bytes of _input alive
        self._input = _Buffer(None, 0, 0)
        self._full = False  # the last output buffer was filled: more may come without input

    def readable(self):
        return True

    def readinto(self, target):
        place = (ctypes.c_char * len(target)).from_buffer(target)
        output = _Buffer(ctypes.addressof(place), len(target), 0)
        while output.position == 0:
            if self._input.position == self._input.size and not self._full:
                self._held = self._file.read(self.INPUT_BYTES)
                if not self._held:
                    return 0
                self._input = _Buffer(ctypes.cast(ctypes.c_char_p(self._held), ctypes.c_void_p), len(self._held), 0)
            result = self._library.ZSTD_decompressStream(self._stream, ctypes.byref(output), ctypes.byref(self._input))
            if self._library.ZSTD_isError(result):
                raise OSError(f"invalid Zstandard data: {self._library.ZSTD_getErrorName(result).decode()}")
            self._full = output.position == output.size
        return output.position

    def close(self):
        if not self.closed:
            self._library.ZSTD_freeDStream(self._stream)
            self._file.close()
        super().close()
