/* The type `PlainLines`: the lines of the log about the plain calls of one session, told of many frames at once.
 *
 * Owns which frames are told of, and their lines until somebody takes them. The first frame that is not plain, or not so
 * plain, ends that, and is left where it is.
 */

#include "_speedups_plain.h"

#include <stddef.h>
#include <string.h>
#include <structmember.h>

#define KEPT_BYTES 65536
/* What is kept of the room for lines. */
#define NEVER (-2000000000)
/* A second before all. */

/* Whether a body may hold a secret, which nobody may have asked before; -1 with an exception set. */
static int
is_suspect(PlainLines *self, const Row *row)
{
    if (row->unsuspected == Py_True) {
        return 0;
    }
    PyObject *found = PyObject_CallOneArg(self->suspects, row->body);
    int is_suspect = found == NULL ? -1 : PyObject_IsTrue(found);
    Py_XDECREF(found);
    return is_suspect;
}

static int
tell(PlainLines *self, PyObject *item)
{
    Row row;
    if (!read_row(item, &row)) {
        return 0;
    }
    int told = is_suspect(self, &row);
    if (told != 0) {
        return told < 0 ? -1 : 0;
    }
    told = asked(self, &row);
    if (told == 0) {
        told = answered(self, &row);
    }
    if (told > 0) {
        self->last = row.at;
        self->taken += PyBytes_GET_SIZE(row.body);
    }
    return told;
}

/* Tell of the first of the items, and take it away. */
static int
tell_first(PlainLines *self, PyObject *items)
{
    PyObject *item = PySequence_GetItem(items, 0);
    if (item == NULL) {
        return -1;
    }
    int told = tell(self, item);
    if (told > 0) {
        PyObject *first = PyObject_CallMethodNoArgs(items, self->popleft);
        told = first == NULL ? -1 : 1;
        Py_XDECREF(first);
    }
    Py_DECREF(item);
    return told;
}

/* Whether a call comes out of another one, as that has asked somebody; sets an exception. */
static int
is_within(const PlainLines *self)
{
    if (self->is_taking) {
        PyErr_SetString(PyExc_RuntimeError, "is telling of frames");
    }
    return self->is_taking;
}

static PyObject *
plain_take(PyObject *object, PyObject *const *args, Py_ssize_t count)
{
    PlainLines *self = (PlainLines *)object;
    if (is_within(self)) {
        return NULL;
    }
    Py_ssize_t most = count == 2 ? PyLong_AsSsize_t(args[1]) : -1;
    if (most < 0 || self->plain == NULL) {
        if (!PyErr_Occurred()) {
            PyErr_SetString(PyExc_TypeError, "takes items and how many of them, while there is a session");
        }
        return NULL;
    }
    Py_ssize_t waiting = PyObject_Size(args[0]), done = 0;
    int told = waiting < 0 ? -1 : 1;
    most = most < waiting ? most : waiting;
    self->taken = 0;
    self->is_taking = 1;
    while (told > 0 && done < most && self->taken < BIG_BYTES) {
        told = tell_first(self, args[0]);
        done += told > 0;
    }
    self->is_taking = 0;
    return told < 0 ? NULL : PyLong_FromSsize_t(done);
}

static PyObject *
plain_add(PyObject *object, PyObject *line)
{
    PlainLines *self = (PlainLines *)object;
    Py_ssize_t size;
    const char *text = PyUnicode_Check(line) ? PyUnicode_AsUTF8AndSize(line, &size) : NULL;
    if (text == NULL || is_within(self) || make_room(self, size) < 0) {
        if (!PyErr_Occurred()) {
            PyErr_SetString(PyExc_TypeError, "takes text");
        }
        return NULL;
    }
    if (size > 0) {
        memcpy(self->room + self->used, text, (size_t)size);
        self->used += size;
    }
    Py_RETURN_NONE;
}

static PyObject *
plain_ready(PyObject *object, PyObject *unused)
{
    (void)unused;
    PlainLines *self = (PlainLines *)object;
    if (is_within(self)) {
        return NULL;
    }
    PyObject *lines = PyBytes_FromStringAndSize(self->room, self->used);
    if (lines != NULL) {
        self->used = 0;
        if (self->size > KEPT_BYTES) {
            PyMem_Free(self->room);
            self->room = NULL;
            self->size = 0;
        }
    }
    return lines;
}

static PyObject *
plain_learn(PyObject *object, PyObject *const *args, Py_ssize_t count)
{
    int64_t id;
    if (count != 5 || !PyUnicode_CheckExact(args[0]) || !PyUnicode_CheckExact(args[1]) || !PyBytes_CheckExact(args[2])
        || !PyLong_CheckExact(args[3]) || !PyTuple_CheckExact(args[4]) || PyTuple_GET_SIZE(args[4]) != 5) {
        PyErr_SetString(PyExc_TypeError, "takes a peer, a name, a body, an id, and what is known");
        return NULL;
    }
    if (PyBytes_GET_SIZE(args[2]) <= LONGEST_CALL && read_number(args[3], &id)
        && learn_known(&((PlainLines *)object)->known, args[0], args[1], args[2], id, args[4]) < 0) {
        return NULL;
    }
    Py_RETURN_NONE;
}

static PyObject *
plain_forget(PyObject *object, PyObject *unused)
{
    (void)unused;
    forget_known(&((PlainLines *)object)->known);
    Py_RETURN_NONE;
}

/* The type */

static PyObject *
plain_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    PyObject *plain, *asking, *ended, *suspects, *turn;
    const char *seed;
    Py_ssize_t size;
    if (kwargs != NULL && PyDict_GET_SIZE(kwargs) > 0) {
        PyErr_SetString(PyExc_TypeError, "takes no names");
        return NULL;
    }
    if (!PyArg_ParseTuple(args, "O!O!O!y#OO", &PyDict_Type, &plain, &PyDict_Type, &asking, &PyDict_Type, &ended,
                          &seed, &size, &suspects, &turn)) {
        return NULL;
    }
    if (size > LONGEST_SEED) {
        PyErr_SetString(PyExc_ValueError, "a seed is too long");
        return NULL;
    }
    PyObject *popleft = PyUnicode_InternFromString("popleft");
    PlainLines *self = popleft == NULL ? NULL : (PlainLines *)type->tp_alloc(type, 0);
    if (self == NULL) {
        Py_XDECREF(popleft);
    } else {
        self->popleft = popleft;
        self->plain = Py_NewRef(plain);
        self->asking = Py_NewRef(asking);
        self->ended = Py_NewRef(ended);
        self->suspects = Py_NewRef(suspects);
        self->turn = Py_NewRef(turn);
        self->second_at = NEVER;
        begin_ids(&self->seeds, seed, (size_t)size);
    }
    return (PyObject *)self;
}

static int
plain_traverse(PyObject *object, visitproc visit, void *arg)
{
    PlainLines *self = (PlainLines *)object;
    Py_VISIT(Py_TYPE(object));
    Py_VISIT(self->plain);
    Py_VISIT(self->asking);
    Py_VISIT(self->ended);
    Py_VISIT(self->suspects);
    Py_VISIT(self->turn);
    return 0;
}

static int
plain_clear(PyObject *object)
{
    PlainLines *self = (PlainLines *)object;
    Py_CLEAR(self->plain);
    Py_CLEAR(self->asking);
    Py_CLEAR(self->ended);
    Py_CLEAR(self->suspects);
    Py_CLEAR(self->turn);
    return 0;
}

static void
plain_free(PyObject *object)
{
    PlainLines *self = (PlainLines *)object;
    PyTypeObject *type = Py_TYPE(object);
    PyObject_GC_UnTrack(object);
    (void)plain_clear(object);
    Py_CLEAR(self->popleft);
    Py_CLEAR(self->second);
    forget_known(&self->known);
    PyMem_Free(self->room);
    type->tp_free(object);
    Py_DECREF(type);
}

static PyMethodDef plain_methods[] = {
    {"take", (PyCFunction)(void (*)(void))plain_take, METH_FASTCALL, "Tell of the first items, take them away, and return how many."},
    {"add", plain_add, METH_O, "Put a line behind those that are ready."},
    {"ready", plain_ready, METH_NOARGS, "Return the lines that are ready, and let go of them."},
    {"learn", (PyCFunction)(void (*)(void))plain_learn, METH_FASTCALL, "Know calls again that are as this one."},
    {"forget", plain_forget, METH_NOARGS, "Know no calls any more."},
    {NULL, NULL, 0, NULL},
};

static PyMemberDef plain_members[] = {
    {"count", T_LONGLONG, offsetof(PlainLines, count), 0, "How many operations have ended."},
    {"taken", T_LONGLONG, offsetof(PlainLines, taken), READONLY, "Bytes of the bodies that were told of last."},
    {"last", T_LONGLONG, offsetof(PlainLines, last), READONLY, "The time of the last frame that was told of."},
    {NULL, 0, 0, 0, NULL},
};

static PyType_Slot plain_slots[] = {
    {Py_tp_doc, "The lines about the plain calls of one session."},
    {Py_tp_new, plain_new},
    {Py_tp_dealloc, plain_free},
    {Py_tp_traverse, plain_traverse},
    {Py_tp_clear, plain_clear},
    {Py_tp_methods, plain_methods},
    {Py_tp_members, plain_members},
    {0, NULL},
};

static PyType_Spec plain_spec = {
    .name = "gateway.telemetry._speedups.PlainLines",
    .basicsize = sizeof(PlainLines),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_IMMUTABLETYPE,
    .slots = plain_slots,
};

int
add_plain_lines(PyObject *module)
{
    PyObject *type = PyType_FromModuleAndSpec(module, &plain_spec, NULL);
    if (type == NULL) {
        return -1;
    }
    int failed = PyModule_AddObjectRef(module, "PlainLines", type);
    Py_DECREF(type);
    return failed;
}
