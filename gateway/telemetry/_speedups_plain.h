/* What is known of the plain calls of one session, and what is done with a frame. */

#ifndef TIELINE_TELEMETRY_SPEEDUPS_PLAIN_H
#define TIELINE_TELEMETRY_SPEEDUPS_PLAIN_H

#include "_speedups.h"

#define LONGEST_CALL 4096
#define BIG_BYTES 32768

typedef struct {
    PyObject_HEAD
    PyObject *plain, *asking, *ended;
    /* Tables of `Kept`. */
    PyObject *suspects;
    /* Says whether bytes may hold a secret. */
    PyObject *turn;
    /* Says when the second of a time began, and how lines begin then. */
    PyObject *popleft;
    /* The name of a method, made once: the interpreter keeps each that it is asked for. */
    PyObject *second;
    int64_t second_at;
    Seeds seeds;
    KnownCalls known;
    char *room;
    Py_ssize_t size, used;
    long long count, taken, last;
    char is_taking;
    /* While others are called, who must not touch the room. */
} PlainLines;

/* A frame as it passed; its objects are the item's. */
typedef struct {
    PyObject *seq_object, *at_object, *kind, *way, *body, *peer, *id, *re, *method, *name, *unsuspected;
    int64_t seq, at;
} Row;

int read_number(PyObject *object, int64_t *number);

/* Each returns 1 where that was done, 0 where Python is to do it, -1 with an exception set. */
int read_row(PyObject *item, Row *row);
int asked(PlainLines *self, const Row *row);
int answered(PlainLines *self, const Row *row);

/* Room for so many bytes of lines more; -1 with an exception set where there is none. */
int make_room(PlainLines *self, Py_ssize_t more);

#endif
