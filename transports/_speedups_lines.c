/* The type of which a link of lines is a subclass, in Python.
 *
 * Owns its attributes, and how reading and writing call the subclass back.
 */

#include "_speedups.h"
#include <stddef.h>
#include <structmember.h>

State *
lines_state(Lines *self)
{
    PyObject *module = PyType_GetModuleByDef(Py_TYPE(self), &speedups);
    return module == NULL ? NULL : PyModule_GetState(module);
}

/* Call a method of the subclass with what `what` gives away; None if it has returned anything. */
PyObject *
lines_call_two(Lines *self, PyObject *name, PyObject *what, PyObject *more)
{
    PyObject *result = NULL;
    if (what != NULL && more != NULL) {
        PyObject *args[] = {(PyObject *)self, what, more};
        result = PyObject_VectorcallMethod(name, args, 3, NULL);
    }
    Py_XDECREF(what);
    Py_XDECREF(more);
    if (result == NULL) {
        return NULL;
    }
    Py_DECREF(result);
    Py_RETURN_NONE;
}

PyObject *
lines_call(Lines *self, PyObject *name, PyObject *what)
{
    if (what == NULL) {
        return NULL;
    }
    PyObject *result = PyObject_CallMethodOneArg((PyObject *)self, name, what);
    Py_DECREF(what);
    if (result == NULL) {
        return NULL;
    }
    Py_DECREF(result);
    Py_RETURN_NONE;
}

/* The exception that is raised, which is raised no more. */
PyObject *
lines_caught(void)
{
#if PY_VERSION_HEX >= 0x030c0000
    return PyErr_GetRaisedException();
#else
    PyObject *type, *value, *trace;
    PyErr_Fetch(&type, &value, &trace);
    PyErr_NormalizeException(&type, &value, &trace);
    if (trace != NULL) {
        PyException_SetTraceback(value, trace);
    }
    Py_XDECREF(type);
    Py_XDECREF(trace);
    return value;
#endif
}

static int
lines_init(PyObject *object, PyObject *args, PyObject *keywords)
{
    Lines *self = (Lines *)object;
    State *state = lines_state(self);
    PyObject *turn;
    if (state == NULL || !PyArg_ParseTuple(args, "O!:PlainLines", state->turn, &turn)) {
        return -1;
    }
    if (keywords != NULL && PyDict_GET_SIZE(keywords)) {
        PyErr_SetString(PyExc_TypeError, "PlainLines() takes no keyword arguments");
        return -1;
    }
    Py_XSETREF(self->turn, Py_NewRef(turn));
    self->tick = -1;
    self->read_fd = self->write_fd = -1;
    return 0;
}

static int
lines_traverse(PyObject *object, visitproc visit, void *arg)
{
    Lines *self = (Lines *)object;
    Py_VISIT(Py_TYPE(object));
    Py_VISIT(self->turn);
    Py_VISIT(self->message);
    return 0;
}

static int
lines_clear(PyObject *object)
{
    Lines *self = (Lines *)object;
    Py_CLEAR(self->turn);
    Py_CLEAR(self->message);
    return 0;
}

static void
lines_dealloc(PyObject *object)
{
    PyTypeObject *type = Py_TYPE(object);
    PyObject_GC_UnTrack(object);
    (void)lines_clear(object);
    type->tp_free(object);
    Py_DECREF(type);
}

static PyMethodDef lines_methods[] = {
    {"_on_readable", (PyCFunction)(void (*)(void))lines_on_readable, METH_FASTCALL, NULL},
    {"send_line", lines_send_line, METH_O, NULL},
    {NULL, NULL, 0, NULL},
};

static PyMemberDef lines_members[] = {
    {"_turn", T_OBJECT_EX, offsetof(Lines, turn), READONLY, NULL},
    {"_message", T_OBJECT_EX, offsetof(Lines, message), 0, NULL},
    {"_tick", T_LONGLONG, offsetof(Lines, tick), 0, NULL},
    {"_queued", T_PYSSIZET, offsetof(Lines, queued), 0, NULL},
    {"_read_fd", T_INT, offsetof(Lines, read_fd), 0, NULL},
    {"_write_fd", T_INT, offsetof(Lines, write_fd), 0, NULL},
    {"_is_mute", T_BOOL, offsetof(Lines, is_mute), 0, NULL},
    {"_is_plain", T_BOOL, offsetof(Lines, is_plain), 0, NULL},
    {"_is_reset", T_BOOL, offsetof(Lines, is_reset), 0, NULL},
    {"_is_socket", T_BOOL, offsetof(Lines, is_socket), 0, NULL},
    {"_waits", T_BOOL, offsetof(Lines, waits), 0, NULL},
    {NULL, 0, 0, 0, NULL},
};

static PyType_Slot lines_slots[] = {
    {Py_tp_init, lines_init},
    {Py_tp_dealloc, lines_dealloc},
    {Py_tp_traverse, lines_traverse},
    {Py_tp_clear, lines_clear},
    {Py_tp_methods, lines_methods},
    {Py_tp_members, lines_members},
    {0, NULL},
};

PyType_Spec lines_spec = {
    .name = "transports._speedups.PlainLines",
    .basicsize = sizeof(Lines),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC,
    .slots = lines_slots,
};
