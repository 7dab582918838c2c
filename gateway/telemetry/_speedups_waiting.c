/* The types `Load` and `Waiting`: frames that wait to be looked at, and how many bytes of bodies all of them take.
 *
 * Owns how a frame is put behind those that wait, where somebody will look at these anyway and there is room. Of any
 * other the Python method `_put` is asked, which does the same and more.
 */

#include "_speedups.h"

#include <stddef.h>
#include <structmember.h>

typedef struct {
    PyObject_HEAD
    long long bytes;
} Load;

typedef struct {
    PyObject_HEAD
    PyObject *load, *items, *append, *put_oddly;
    /* `put_oddly` is the name of a method. */
    long long short_bytes, most_items, most_bytes;
    char is_listed;
} Waiting;

static void
load_free(PyObject *object)
{
    PyTypeObject *type = Py_TYPE(object);
    type->tp_free(object);
    Py_DECREF(type);
}

static PyMemberDef load_members[] = {
    {"bytes", T_LONGLONG, offsetof(Load, bytes), 0, "Of all bodies that wait."},
    {NULL, 0, 0, 0, NULL},
};

static PyType_Slot load_slots[] = {
    {Py_tp_doc, "How much waits."},
    {Py_tp_dealloc, load_free},
    {Py_tp_members, load_members},
    {0, NULL},
};

static PyType_Spec load_spec = {
    .name = "gateway.telemetry._speedups.Load",
    .basicsize = sizeof(Load),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_IMMUTABLETYPE,
    .slots = load_slots,
};

/* The size of the body of a frame that can be put there at once; -1 where Python is to do it. */
static Py_ssize_t
size_of(const Waiting *self, PyObject *item)
{
    if (!self->is_listed || self->append == NULL || !PyTuple_CheckExact(item) || PyTuple_GET_SIZE(item) < 5
        || !PyBytes_CheckExact(PyTuple_GET_ITEM(item, 4))) {
        return -1;
    }
    Py_ssize_t size = PyBytes_GET_SIZE(PyTuple_GET_ITEM(item, 4)), waiting = PyObject_Size(self->items);
    if (waiting < 0) {
        PyErr_Clear();
        return -1;
    }
    long long held = ((const Load *)self->load)->bytes;
    return size < self->short_bytes && waiting < self->most_items && held >= 0 && held <= self->most_bytes ? size : -1;
}

static PyObject *
waiting_put(PyObject *object, PyObject *item)
{
    Waiting *self = (Waiting *)object;
    if (self->put_oddly == NULL) {
        PyErr_SetString(PyExc_RuntimeError, "has not been begun");
        return NULL;
    }
    Py_ssize_t size = size_of(self, item);
    if (size < 0) {
        return PyObject_CallMethodOneArg(object, self->put_oddly, item);
    }
    ((Load *)self->load)->bytes += size;
    return PyObject_CallOneArg(self->append, item);
}

static int
waiting_init(PyObject *object, PyObject *args, PyObject *kwargs)
{
    Waiting *self = (Waiting *)object;
    PyObject *load, *items;
    long long short_bytes, most_items, most_bytes;
    if ((kwargs != NULL && PyDict_GET_SIZE(kwargs) > 0) || self->put_oddly != NULL
        || !PyArg_ParseTuple(args, "OOLLL", &load, &items, &short_bytes, &most_items, &most_bytes)
        || Py_TYPE(load)->tp_dealloc != load_free) {
        if (!PyErr_Occurred()) {
            PyErr_SetString(PyExc_TypeError, "takes a load, items, and what is short and most of both, once");
        }
        return -1;
    }
    /* The interpreter keeps the names that it is asked for: of this one there is one. */
    PyObject *name = PyUnicode_InternFromString("append");
    PyObject *append = name == NULL ? NULL : PyObject_GetAttr(items, name);
    Py_XDECREF(name);
    PyObject *put_oddly = append == NULL ? NULL : PyUnicode_InternFromString("_put");
    if (put_oddly == NULL) {
        Py_XDECREF(append);
        return -1;
    }
    self->load = Py_NewRef(load);
    self->items = Py_NewRef(items);
    self->append = append;
    self->put_oddly = put_oddly;
    self->short_bytes = short_bytes;
    self->most_items = most_items;
    self->most_bytes = most_bytes;
    return 0;
}

static int
waiting_traverse(PyObject *object, visitproc visit, void *arg)
{
    Waiting *self = (Waiting *)object;
    Py_VISIT(Py_TYPE(object));
    Py_VISIT(self->load);
    Py_VISIT(self->items);
    Py_VISIT(self->append);
    return 0;
}

/* What is not there any more is not asked: `append` is looked at. */
static int
waiting_clear(PyObject *object)
{
    Waiting *self = (Waiting *)object;
    Py_CLEAR(self->append);
    Py_CLEAR(self->items);
    Py_CLEAR(self->load);
    return 0;
}

static void
waiting_free(PyObject *object)
{
    PyTypeObject *type = Py_TYPE(object);
    PyObject_GC_UnTrack(object);
    (void)waiting_clear(object);
    Py_CLEAR(((Waiting *)object)->put_oddly);
    type->tp_free(object);
    Py_DECREF(type);
}

static PyMethodDef waiting_methods[] = {
    {"put", waiting_put, METH_O, "Keep a frame that has been recorded."},
    {NULL, NULL, 0, NULL},
};

static PyMemberDef waiting_members[] = {
    {"load", T_OBJECT_EX, offsetof(Waiting, load), READONLY, "Of all that wait."},
    {"items", T_OBJECT_EX, offsetof(Waiting, items), READONLY, "Frames, in their order."},
    {"is_listed", T_BOOL, offsetof(Waiting, is_listed), 0, "Whether somebody will look at them."},
    {NULL, 0, 0, 0, NULL},
};

static PyType_Slot waiting_slots[] = {
    {Py_tp_doc, "The frames of one session that wait."},
    {Py_tp_init, waiting_init},
    {Py_tp_dealloc, waiting_free},
    {Py_tp_traverse, waiting_traverse},
    {Py_tp_clear, waiting_clear},
    {Py_tp_methods, waiting_methods},
    {Py_tp_members, waiting_members},
    {0, NULL},
};

static PyType_Spec waiting_spec = {
    .name = "gateway.telemetry._speedups.Waiting",
    .basicsize = sizeof(Waiting),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC,
    .slots = waiting_slots,
};

static int
add(PyObject *module, PyType_Spec *spec, const char *name)
{
    PyObject *type = PyType_FromModuleAndSpec(module, spec, NULL);
    int failed = type == NULL ? -1 : PyModule_AddObjectRef(module, name, type);
    Py_XDECREF(type);
    return failed;
}

int
add_waiting(PyObject *module)
{
    return add(module, &load_spec, "Load") < 0 ? -1 : add(module, &waiting_spec, "Waiting");
}
