/* The parts of reading and writing that every message passes, in C: `plain_lines` has the same in Python.
 *
 * Owns the module, its state, and the moment of writing of a loop. Whatever is out of the ordinary is left to Python.
 */

#include "_speedups.h"
#include <stddef.h>
#include <stdlib.h>
#include <structmember.h>

/* Whoever compiles says by what the sources are known again. */
#ifndef TIELINE_SOURCES
#define TIELINE_SOURCES ""
#endif

static void
turn_dealloc(PyObject *object)
{
    PyTypeObject *type = Py_TYPE(object);
    Py_CLEAR(((Turn *)object)->spare);
    type->tp_free(object);
    Py_DECREF(type);
}

static PyMemberDef turn_members[] = {
    {"tick", T_LONGLONG, offsetof(Turn, tick), 0, NULL},
    {"batching", T_PYSSIZET, offsetof(Turn, batching), 0, NULL},
    {NULL, 0, 0, 0, NULL},
};

static PyType_Slot turn_slots[] = {
    {Py_tp_dealloc, turn_dealloc},
    {Py_tp_members, turn_members},
    {0, NULL},
};

PyType_Spec turn_spec = {
    .name = "transports._speedups.PlainTurn",
    .basicsize = sizeof(Turn),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE,
    .slots = turn_slots,
};

static int
add_type(PyObject *module, PyType_Spec *spec, PyTypeObject **type)
{
    *type = (PyTypeObject *)PyType_FromModuleAndSpec(module, spec, NULL);
    return *type == NULL ? -1 : PyModule_AddType(module, *type);
}

static int
start(PyObject *module)
{
    const char *pure = getenv("TIELINE_PURE_PYTHON");
    if (pure != NULL && *pure != '\0') {
        PyErr_SetString(PyExc_ImportError, "TIELINE_PURE_PYTHON is set");
        return -1;
    }
    State *state = PyModule_GetState(module);
    const struct {
        PyObject **where;
        const char *name;
    } names[] = {
        {&state->feed, "_feed"},
        {&state->nothing_read, "_nothing_read"},
        {&state->was_reset, "_was_reset"},
        {&state->tell_fault, "_tell_fault"},
        {&state->send, "send"},
        {&state->refused, "_refused"},
        {&state->took, "_took"},
    };
    for (size_t at = 0; at < sizeof(names) / sizeof(*names); at++) {
        *names[at].where = PyUnicode_InternFromString(names[at].name);
        if (*names[at].where == NULL) {
            return -1;
        }
    }
    if (add_type(module, &turn_spec, &state->turn) < 0) {
        return -1;
    }
    if (add_type(module, &lines_spec, &state->lines) < 0) {
        return -1;
    }
    return PyModule_AddStringConstant(module, "SOURCES", TIELINE_SOURCES);
}

static int
traverse(PyObject *module, visitproc visit, void *arg)
{
    State *state = PyModule_GetState(module);
    Py_VISIT(state->turn);
    Py_VISIT(state->lines);
    return 0;
}

static int
clear(PyObject *module)
{
    State *state = PyModule_GetState(module);
    Py_CLEAR(state->turn);
    Py_CLEAR(state->lines);
    Py_CLEAR(state->feed);
    Py_CLEAR(state->nothing_read);
    Py_CLEAR(state->was_reset);
    Py_CLEAR(state->tell_fault);
    Py_CLEAR(state->send);
    Py_CLEAR(state->refused);
    Py_CLEAR(state->took);
    return 0;
}

static void
release(void *module)
{
    (void)clear(module);
}

static PyModuleDef_Slot slots[] = {
    {Py_mod_exec, start},
#if PY_VERSION_HEX >= 0x030c0000
    {Py_mod_multiple_interpreters, Py_MOD_PER_INTERPRETER_GIL_SUPPORTED},
#endif
    {0, NULL},
};

struct PyModuleDef speedups = {
    PyModuleDef_HEAD_INIT,
    .m_name = "_speedups",
    .m_size = sizeof(State),
    .m_slots = slots,
    .m_traverse = traverse,
    .m_clear = clear,
    .m_free = release,
};

PyMODINIT_FUNC
PyInit__speedups(void)
{
    return PyModuleDef_Init(&speedups);
}
