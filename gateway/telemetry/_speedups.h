/* What the C files of this extension module share. */

#ifndef TIELINE_TELEMETRY_SPEEDUPS_H
#define TIELINE_TELEMETRY_SPEEDUPS_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdint.h>

#define LONGEST_SEED 80
/* Bytes of a session's name and seed with which the texts of both ids are one block of a hash. */
#define NUMBER_BYTES 20
#define TRACE_BYTES 32
#define SPAN_BYTES 16

/* Where the texts that ids are hashes of begin: a block each, zero behind that. */
typedef struct {
    unsigned char trace[128], span[128];
    size_t trace_size, span_size;
} Seeds;

void begin_ids(Seeds *seeds, const char *seed, size_t size);
void write_ids(const Seeds *seeds, const char *digits, size_t count, char *trace, char *span);

/* A call as it is known again: what stands around its id, and what is told of such calls. All of it is owned. */
typedef struct {
    uint64_t mark;
    PyObject *peer, *name, *body, *told;
    Py_ssize_t begins, ends;
} KnownCall;

typedef struct {
    KnownCall **slots;
    Py_ssize_t count;
} KnownCalls;

/* Return what is told of a call, borrowed; NULL, without an exception, where it is not known. */
PyObject *find_known(const KnownCalls *known, PyObject *peer, PyObject *name, PyObject *body, int64_t id);
int learn_known(KnownCalls *known, PyObject *peer, PyObject *name, PyObject *body, int64_t id, PyObject *told);
void forget_known(KnownCalls *known);

/* Where an answer says no word of an error or of what is still to come: 1. */
int is_plain_result(const char *body, Py_ssize_t size);

/* What there may be NUMBER_BYTES of; returns what is behind it. */
char *write_number(char *to, uint64_t number);
char *write_id(char *to, int64_t id);
/* Nanoseconds in milliseconds; NULL where a float would have to say how. At most NUMBER_BYTES. */
char *write_milliseconds(char *to, int64_t took);

/* Each returns -1 with an exception set where it fails. */
int add_plain_lines(PyObject *module);
int add_waiting(PyObject *module);

#endif
