/* Messages that every call passes, read and written in C: `short_messages` has the same in Python.
 *
 * Owns the table of what there is. Bytes in, bytes out: no state, no file, no clock. Whatever is out of the ordinary is
 * left to Python.
 */

#include "_speedups.h"

#include <stdlib.h>

/* Whoever compiles says by what the sources are known again. */
#ifndef TIELINE_SOURCES
#define TIELINE_SOURCES ""
#endif

#define METHOD(name) {#name, (PyCFunction)(void (*)(void))name, METH_FASTCALL, NULL}

static PyMethodDef methods[] = {
    METHOD(read_call),
    METHOD(read_asked),
    METHOD(read_answer),
    METHOD(call_line),
    METHOD(answer_line),
    {NULL, NULL, 0, NULL},
};

static int
start(PyObject *module)
{
    const char *pure = getenv("TIELINE_PURE_PYTHON");
    if (pure != NULL && *pure != '\0') {
        PyErr_SetString(PyExc_ImportError, "TIELINE_PURE_PYTHON is set");
        return -1;
    }
    return PyModule_AddStringConstant(module, "SOURCES", TIELINE_SOURCES);
}

static PyModuleDef_Slot slots[] = {
    {Py_mod_exec, start},
#if PY_VERSION_HEX >= 0x030c0000
    {Py_mod_multiple_interpreters, Py_MOD_PER_INTERPRETER_GIL_SUPPORTED},
#endif
    {0, NULL},
};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT,
    .m_name = "_speedups",
    .m_methods = methods,
    .m_slots = slots,
};

PyMODINIT_FUNC
PyInit__speedups(void)
{
    return PyModuleDef_Init(&definition);
}
