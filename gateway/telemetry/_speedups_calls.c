/* The lines of the log about a plain call and its result, as `PlainCalls` has them.
 *
 * Owns what of a frame is looked at, and how a line is put together of what `blanks` has cut. Calls are entered where
 * `Kept` has them. Nothing is touched of a frame that is not plain, or not so plain.
 */

#include "_speedups_plain.h"

#include <string.h>

#define SECOND_NS 1000000000
#define LAST_TIME (INT64_MAX / 4)

/* Numbers of more than 62 bits are left to Python, and so is what is no number. */
int
read_number(PyObject *object, int64_t *number)
{
    int is_long;
    if (!PyLong_CheckExact(object)) {
        return 0;
    }
    *number = PyLong_AsLongLongAndOverflow(object, &is_long);
    return !is_long;
}

static int
is_text(PyObject *object, const char *text)
{
    return PyUnicode_CheckExact(object) && PyUnicode_CompareWithASCIIString(object, text) == 0;
}

int
read_row(PyObject *item, Row *row)
{
    if (!PyTuple_CheckExact(item) || PyTuple_GET_SIZE(item) != 12) {
        return 0;
    }
    memcpy(row, &PyTuple_GET_ITEM(item, 0), 11 * sizeof(PyObject *));
    return PyTuple_GET_ITEM(item, 11) == Py_None && PyBytes_CheckExact(row->body)
        && PyUnicode_CheckExact(row->peer) && PyUnicode_CheckExact(row->name) && is_text(row->method, "tools/call")
        && read_number(row->seq_object, &row->seq) && row->seq >= 0
        && read_number(row->at_object, &row->at) && row->at >= 0 && row->at < LAST_TIME;
}

/* Room for lines */

int
make_room(PlainLines *self, Py_ssize_t more)
{
    if (self->size - self->used >= more) {
        return 0;
    }
    if (more > PY_SSIZE_T_MAX / 4 || self->used > PY_SSIZE_T_MAX / 4) {
        PyErr_NoMemory();
        return -1;
    }
    Py_ssize_t size = (self->used + more) * 2;
    char *room = PyMem_Realloc(self->room, (size_t)size);
    if (room == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    self->room = room;
    self->size = size;
    return 0;
}

typedef struct {
    const char *data;
    Py_ssize_t size;
} Piece;

static inline char *
put(char *to, Piece piece)
{
    memcpy(to, piece.data, (size_t)piece.size);
    return to + piece.size;
}

static int
read_piece(PyObject *text, Piece *piece)
{
    if (!PyUnicode_CheckExact(text)) {
        PyErr_SetString(PyExc_TypeError, "pieces of a line are texts");
        return -1;
    }
    piece->data = PyUnicode_AsUTF8AndSize(text, &piece->size);
    return piece->data == NULL ? -1 : 0;
}

/* So many pieces; adds how long they are together. */
static int
read_pieces(PyObject *tuple, Piece *pieces, Py_ssize_t count, Py_ssize_t *size)
{
    if (!PyTuple_CheckExact(tuple) || PyTuple_GET_SIZE(tuple) != count) {
        PyErr_SetString(PyExc_TypeError, "pieces of a line are a tuple of so many");
        return -1;
    }
    for (Py_ssize_t at = 0; at < count; at++) {
        if (read_piece(PyTuple_GET_ITEM(tuple, at), &pieces[at]) < 0) {
            return -1;
        }
        *size += pieces[at].size;
    }
    return 0;
}

/* The second of a time, as lines begin with it. */
static int
read_second(PlainLines *self, int64_t at, Piece *second)
{
    if (at < self->second_at || at - self->second_at >= SECOND_NS) {
        PyObject *told = PyObject_CallFunction(self->turn, "L", (long long)at);
        if (told == NULL) {
            return -1;
        }
        long long began;
        PyObject *text;
        if (!PyTuple_Check(told) || !PyArg_ParseTuple(told, "LU", &began, &text) || began > at || began <= at - SECOND_NS) {
            if (!PyErr_Occurred()) {
                PyErr_SetString(PyExc_ValueError, "a time is not in its second");
            }
            Py_DECREF(told);
            return -1;
        }
        self->second_at = began;
        Py_XSETREF(self->second, Py_NewRef(text));
        Py_DECREF(told);
    }
    return read_piece(self->second, second);
}

static char *
put_milliseconds(char *to, int64_t since)
{
    int left = (int)(since / 1000000);
    *to++ = (char)('0' + left / 100);
    *to++ = (char)('0' + left / 10 % 10);
    *to++ = (char)('0' + left % 10);
    return to;
}

/* A call */

/* What `Known` has, without its hash: the pieces of the line about the beginning, and what both lines say alike. */
typedef struct {
    Piece says, begins[3], alike[4];
    Py_ssize_t size;
} Form;

static int
read_form(PyObject *told, Form *form)
{
    form->size = 0;
    if (read_piece(PyTuple_GET_ITEM(told, 1), &form->says) < 0
        || read_pieces(PyTuple_GET_ITEM(told, 2), form->begins, 3, &form->size) < 0
        || read_pieces(PyTuple_GET_ITEM(told, 3), form->alike, 4, &form->size) < 0) {
        return -1;
    }
    form->size += form->says.size;
    return 0;
}

/* What both lines say; returns what is behind it. */
static char *
put_alike(const PlainLines *self, char *to, const Row *row, int64_t id, const Form *form)
{
    char *digits = to;
    to = write_number(to, (uint64_t)row->seq);
    size_t count = (size_t)(to - digits);
    to = write_id(put(to, form->alike[0]), id);
    char *trace = put(to, form->alike[1]);
    char *span = put(trace + TRACE_BYTES, form->alike[2]);
    write_ids(&self->seeds, digits, count, trace, span);
    to = put(span + SPAN_BYTES, form->alike[3]);
    memcpy(to, digits, count);
    return to + count;
}

/* Enter a call as `PlainCall` is. */
static int
enter(PlainLines *self, const Row *row, PyObject *told, PyObject *alike)
{
    PyObject *size = PyLong_FromSsize_t(PyBytes_GET_SIZE(row->body));
    PyObject *call = size == NULL || alike == NULL ? NULL : PyTuple_Pack(
        9, row->at_object, size, row->peer, row->name, row->id, PyTuple_GET_ITEM(told, 0), alike,
        PyTuple_GET_ITEM(told, 3), PyTuple_GET_ITEM(told, 4));
    int failed = call == NULL ? -1 : PyDict_SetItem(self->plain, row->seq_object, call);
    Py_XDECREF(size);
    Py_XDECREF(call);
    return failed;
}

static int
asked_as(PlainLines *self, const Row *row, int64_t id, PyObject *told)
{
    Form form;
    Piece second;
    if (read_form(told, &form) < 0 || read_second(self, row->at, &second) < 0
        || make_room(self, form.size + second.size + TRACE_BYTES + SPAN_BYTES + 5 * NUMBER_BYTES) < 0) {
        return -1;
    }
    char *to = put(put(self->room + self->used, form.begins[0]), second);
    to = put(put_milliseconds(to, row->at - self->second_at), form.begins[1]);
    char *alike = to;
    to = put_alike(self, to, row, id, &form);
    PyObject *text = PyUnicode_DecodeUTF8(alike, to - alike, NULL);
    int failed = enter(self, row, told, text);
    Py_XDECREF(text);
    if (failed < 0) {
        return -1;
    }
    to = write_number(put(to, form.says), (uint64_t)PyBytes_GET_SIZE(row->body));
    to = put(to, form.begins[2]);
    self->used = to - self->room;
    return 1;
}

int
asked(PlainLines *self, const Row *row)
{
    int64_t id;
    if (!is_text(row->kind, "request") || !is_text(row->way, "core>") || !read_number(row->id, &id)
        || PyBytes_GET_SIZE(row->body) > LONGEST_CALL) {
        return 0;
    }
    PyObject *told = Py_XNewRef(find_known(&self->known, row->peer, row->name, row->body, id));
    int is_told = told == NULL ? 0 : asked_as(self, row, id, told);
    Py_XDECREF(told);
    return is_told;
}

/* Its result */

/* A call that has ended, as `EndedCall` is, in the place of the open one. */
static int
end(PlainLines *self, const Row *row, PyObject *call, PyObject *size)
{
    PyObject **had = &PyTuple_GET_ITEM(call, 0);
    PyObject *count = PyLong_FromLongLong(self->count);
    PyObject *ended = count == NULL ? NULL : PyTuple_Pack(
        9, count, had[0], had[1], had[2], had[3], had[4], had[5], row->at_object, size);
    int failed = ended == NULL ? -1 : PyDict_SetItem(self->ended, row->re, ended);
    if (failed == 0) {
        self->count = (long long)((unsigned long long)self->count + 1);
        failed = PyDict_DelItem(self->plain, row->re);
    }
    Py_XDECREF(count);
    Py_XDECREF(ended);
    return failed;
}

/* The open call that a result ends, borrowed; NULL, perhaps with an exception, where it is another's or may be none. */
static PyObject *
call_of(const PlainLines *self, const Row *row, int64_t *start)
{
    if (!is_text(row->kind, "response") || !is_text(row->way, "peer>") || PyUnicode_GET_LENGTH(row->name) != 0
        || !PyLong_CheckExact(row->re) || PyBytes_GET_SIZE(row->body) >= BIG_BYTES) {
        return NULL;
    }
    PyObject *call = PyDict_GetItemWithError(self->plain, row->re);
    if (call == NULL || !PyTuple_CheckExact(call) || PyTuple_GET_SIZE(call) != 9) {
        return NULL;
    }
    if (PyDict_GET_SIZE(self->asking) > 0 && PyDict_Contains(self->asking, row->re) != 0) {
        return NULL;
    }
    PyObject *peer = PyTuple_GET_ITEM(call, 2);
    if (peer != row->peer && (!PyUnicode_CheckExact(peer) || PyUnicode_Compare(peer, row->peer) != 0)) {
        return NULL;
    }
    if (!read_number(PyTuple_GET_ITEM(call, 0), start) || *start < 0
        || !is_plain_result(PyBytes_AS_STRING(row->body), PyBytes_GET_SIZE(row->body))) {
        return NULL;
    }
    return call;
}

static int
answered_to(PlainLines *self, const Row *row, PyObject *call, int64_t start)
{
    char took[NUMBER_BYTES];
    char *took_to = write_milliseconds(took, row->at - start);
    if (took_to == NULL) {
        return 0;
    }
    Piece ends[5], alike, second;
    Py_ssize_t size = 0, answer_size = PyBytes_GET_SIZE(row->body);
    if (read_pieces(PyTuple_GET_ITEM(call, 8), ends, 5, &size) < 0
        || read_piece(PyTuple_GET_ITEM(call, 6), &alike) < 0 || read_second(self, row->at, &second) < 0
        || make_room(self, size + alike.size + second.size + 3 * NUMBER_BYTES) < 0) {
        return -1;
    }
    char *to = put(put(self->room + self->used, ends[0]), second);
    to = put(put_milliseconds(to, row->at - self->second_at), ends[1]);
    to = put(put(to, alike), ends[2]);
    to = put(put(to, (Piece){took, took_to - took}), ends[3]);
    to = put(write_number(to, (uint64_t)answer_size), ends[4]);
    PyObject *told_size = PyLong_FromSsize_t(answer_size);
    int failed = told_size == NULL ? -1 : end(self, row, call, told_size);
    Py_XDECREF(told_size);
    if (failed < 0) {
        return -1;
    }
    self->used = to - self->room;
    return 1;
}

int
answered(PlainLines *self, const Row *row)
{
    int64_t start;
    PyObject *call = Py_XNewRef(call_of(self, row, &start));
    if (call == NULL) {
        return PyErr_Occurred() ? -1 : 0;
    }
    int is_told = answered_to(self, row, call, start);
    Py_DECREF(call);
    return is_told;
}
