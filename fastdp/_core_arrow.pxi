# Reads columns through Arrow's capsule protocol; part of _core.pyx.

cdef extern from *:
    """
    /* https://arrow.apache.org/docs/format/CDataInterface.html */
    struct fdp_arrow_schema {
        const char *format, *name, *metadata;
        int64_t flags, n_children;
        struct fdp_arrow_schema **children, *dictionary;
        void (*release)(struct fdp_arrow_schema *);
        void *private_data;
    };
    struct fdp_arrow_array {
        int64_t length, null_count, offset, n_buffers, n_children;
        const void **buffers;
        struct fdp_arrow_array **children, *dictionary;
        void (*release)(struct fdp_arrow_array *);
        void *private_data;
    };
    struct fdp_arrow_stream {
        int (*get_schema)(struct fdp_arrow_stream *, struct fdp_arrow_schema *);
        int (*get_next)(struct fdp_arrow_stream *, struct fdp_arrow_array *);
        const char *(*get_last_error)(struct fdp_arrow_stream *);
        void (*release)(struct fdp_arrow_stream *);
        void *private_data;
    };
    """
    cdef struct fdp_arrow_schema:
        const char *format
        fdp_arrow_schema *dictionary
        void (*release)(fdp_arrow_schema *) noexcept
    cdef struct fdp_arrow_array:
        int64_t length
        int64_t null_count
        int64_t offset
        const void **buffers
        void (*release)(fdp_arrow_array *) noexcept
    cdef struct fdp_arrow_stream:
        int (*get_schema)(fdp_arrow_stream *, fdp_arrow_schema *) noexcept
        int (*get_next)(fdp_arrow_stream *, fdp_arrow_array *) noexcept


@cython.final
cdef class ArrowChunk:
    """One array of a stream; released with the last view of it."""

    cdef fdp_arrow_array c

    def __dealloc__(self):
        if self.c.release != NULL:
            self.c.release(&self.c)


cdef bytes _format(const fdp_arrow_schema *schema):
    return b"dictionary" if schema.dictionary != NULL else <bytes> schema.format


def arrow_format(schema):
    """Return the format of a schema's capsule."""
    return _format(<fdp_arrow_schema *> PyCapsule_GetPointer(schema, "arrow_schema"))


def arrow_chunks(stream):
    """Return the format and the chunks of a stream's capsule, (None, []) if it fails.

    For nested types (tables, lists) it returns the format and no chunks.
    """
    cdef fdp_arrow_stream *c = <fdp_arrow_stream *> PyCapsule_GetPointer(
        stream, "arrow_array_stream")
    cdef fdp_arrow_schema schema
    cdef ArrowChunk chunk
    cdef list chunks = []
    if c.get_schema(c, &schema) != 0:
        return None, []
    kind = _format(&schema)
    schema.release(&schema)
    if kind.startswith(b"+"):
        return kind, []
    while True:
        chunk = ArrowChunk()
        if c.get_next(c, &chunk.c) != 0:
            chunk.c.release = NULL
            return None, []
        if chunk.c.release == NULL:
            return kind, chunks
        chunks.append(chunk)


cdef fdp_arrow_array *_array_of(object owner) except NULL:
    """Return the C array of a chunk or a capsule."""
    if type(owner) is ArrowChunk:
        return &(<ArrowChunk> owner).c
    return <fdp_arrow_array *> PyCapsule_GetPointer(owner, "arrow_array")


def arrow_view(owner, cnp.dtype dtype=None):
    """Return (values, validity, skipped, length) of an array's capsule or a chunk.

    Values and validity are views. If `dtype` is None, the values are packed bits. The
    first `skipped` bits of packed bits are not part of the array. The validity is None
    if the array has no bitmap.
    """
    cdef fdp_arrow_array *c = _array_of(owner)
    cdef cnp.npy_intp length, packed
    cdef uint8_t *data
    length = c.length
    packed = (c.offset % 8 + length + 7) // 8 if length > 0 else 0
    validity = None
    if length > 0 and c.buffers[0] != NULL:
        data = <uint8_t *> c.buffers[0] + c.offset // 8
        validity = _view(owner, data, packed, cnp.NPY_UINT8)
    if dtype is None:
        data = <uint8_t *> c.buffers[1] + c.offset // 8
        values = _view(owner, data, packed, cnp.NPY_UINT8)
    else:
        data = <uint8_t *> c.buffers[1] + c.offset * dtype.itemsize
        values = _view(owner, data, length, dtype.num)
    return values, validity, c.offset % 8, length


def arrow_strings(owner, int width):
    """Return (offsets from 0, bytes, validity, skipped) of a column of strings; its
    offsets have `width` bytes each."""
    cdef fdp_arrow_array *c = _array_of(owner)
    cdef cnp.npy_intp length, packed
    length = c.length
    packed = (c.offset % 8 + length + 7) // 8
    kind = np.dtype(np.int32 if width == 4 else np.int64)
    if length == 0:
        return np.zeros(1, kind), np.zeros(0, np.uint8), None, 0
    validity = None
    if c.buffers[0] != NULL and c.null_count != 0:
        validity = _view(owner, <uint8_t *> c.buffers[0] + c.offset // 8, packed,
                         cnp.NPY_UINT8)
    start = _view(owner, <uint8_t *> c.buffers[1] + c.offset * width, length + 1,
                  kind.num)
    first = int(start[0])
    size = int(start[length]) - first
    text = _view(owner, <uint8_t *> c.buffers[2] + <cnp.npy_intp> first, size,
                 cnp.NPY_UINT8)
    return start - first, text, validity, c.offset % 8


cdef object _view(object owner, uint8_t *data, cnp.npy_intp size, int kind):
    if size == 0:
        return cnp.PyArray_EMPTY(1, &size, kind, 0)
    cdef cnp.ndarray array = cnp.PyArray_SimpleNewFromData(1, &size, kind, data)
    cnp.PyArray_CLEARFLAGS(array, cnp.NPY_ARRAY_WRITEABLE)
    cnp.set_array_base(array, owner)
    return array
