/* What the C files of this package share: the state of the module, and how it makes its types. */

#ifndef TIELINE_TRANSPORTS_SPEEDUPS_H
#define TIELINE_TRANSPORTS_SPEEDUPS_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

enum {
    /* What is longer takes the system so long to copy that other threads may have the interpreter's lock meanwhile; and
     * a read is copied up to here, and from here on given away with the memory that it is in. */
    SHORT_BYTES = 16384
};

/* The moment of writing that all links of one event loop share: `plain_lines.PlainTurn`. */
typedef struct {
    PyObject_HEAD
    long long tick;
    Py_ssize_t batching;
    PyObject *spare; /* What the next read goes into, and nobody else has: bytes of READ_BYTES. */
} Turn;

/* A link of lines, as far as the plain case goes: `plain_lines.PlainLines`. */
typedef struct {
    PyObject_HEAD
    PyObject *turn;    /* Always a Turn. */
    PyObject *message; /* What takes a message. */
    long long tick;
    Py_ssize_t queued;
    int read_fd;
    int write_fd;
    char is_mute;
    char is_plain;
    char is_reset;
    char is_socket;
    char waits;
} Lines;

/* Names of methods of the subclass, which is in Python. */
typedef struct {
    PyTypeObject *turn;
    PyTypeObject *lines;
    PyObject *feed;
    PyObject *nothing_read;
    PyObject *was_reset;
    PyObject *tell_fault;
    PyObject *send;
    PyObject *refused;
    PyObject *took;
} State;

extern struct PyModuleDef speedups;
extern PyType_Spec turn_spec;
extern PyType_Spec lines_spec;

/* NULL with an exception. */
State *lines_state(Lines *self);
/* Call a method of the subclass with one or two arguments, which are given away and may be NULL where an exception is
 * raised. None, whatever it returns. */
PyObject *lines_call(Lines *self, PyObject *name, PyObject *what);
PyObject *lines_call_two(Lines *self, PyObject *name, PyObject *what, PyObject *more);
/* The exception that is raised, which is raised no more. */
PyObject *lines_caught(void);

PyObject *lines_on_readable(PyObject *self, PyObject *const *args, Py_ssize_t count);
PyObject *lines_send_line(PyObject *self, PyObject *line);

#endif
