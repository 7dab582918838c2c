/* What the files of this module share: a reader of JSON that stands somewhere in a message. */

#ifndef TIELINE_PROTOCOL_SPEEDUPS_H
#define TIELINE_PROTOCOL_SPEEDUPS_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#if defined(__SSE2__) && defined(__GNUC__)
#include <emmintrin.h>
#define HAS_SSE2 1
#endif

/* Deeper JSON is Python's to judge, however much is allowed: the reader keeps a bit for each level. */
#define MOST_LEVELS 256
/* Longer messages are read otherwise: `bounds.MAX_DIGITS`. */
#define MOST_BYTES 8192

typedef unsigned char byte;

typedef struct {
    const byte *at;
    const byte *end;
    int depth;
    int most_depth;
} Reader;

/* A part of a message. */
typedef struct {
    const byte *start;
    const byte *end;
} Span;

static inline Py_ssize_t
size_of(Span span)
{
    return span.end - span.start;
}

static inline bool
is_text(Span span, const char *text, size_t size)
{
    return (size_t)size_of(span) == size && memcmp(span.start, text, size) == 0;
}

#define IS(span, text) is_text(span, text, sizeof(text) - 1)

static inline void
skip_space(Reader *reader)
{
    while (reader->at < reader->end
           && (*reader->at == ' ' || *reader->at == '\t' || *reader->at == '\n' || *reader->at == '\r')) {
        reader->at++;
    }
}

/* Whether the next byte that is no space is this one, which is then behind. */
static inline bool
takes(Reader *reader, byte wanted)
{
    if (reader->at < reader->end && *reader->at == wanted) {
        reader->at++;
        return true;
    }
    skip_space(reader);
    if (reader->at < reader->end && *reader->at == wanted) {
        reader->at++;
        return true;
    }
    return false;
}


bool read_text(Reader *reader, Span *text);
bool read_key(Reader *reader, Span *key);
bool read_id(Reader *reader, long long *id);
bool skip_value(Reader *reader);
bool begins(Reader *reader, PyObject *const *args, Py_ssize_t count);

PyObject *read_call(PyObject *module, PyObject *const *args, Py_ssize_t count);
PyObject *read_asked(PyObject *module, PyObject *const *args, Py_ssize_t count);
PyObject *read_answer(PyObject *module, PyObject *const *args, Py_ssize_t count);
PyObject *call_line(PyObject *module, PyObject *const *args, Py_ssize_t count);
PyObject *answer_line(PyObject *module, PyObject *const *args, Py_ssize_t count);

#endif
