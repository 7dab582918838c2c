/* Frames on their way to the log, and its lines about plain calls, in C: `waiting` and `plain` do the same in Python.
 *
 * Owns no file and no clock: frames in, lines out. Whatever is out of the ordinary is left to Python.
 */

#include "_speedups.h"

#include <stdlib.h>

/* Whoever compiles says by what the sources are known again. */
#ifndef TIELINE_SOURCES
#define TIELINE_SOURCES ""
#endif

static int
start(PyObject *module)
{
    const char *pure = getenv("TIELINE_PURE_PYTHON");
    if (pure != NULL && *pure != '\0') {
        PyErr_SetString(PyExc_ImportError, "TIELINE_PURE_PYTHON is set");
        return -1;
    }
    if (PyModule_AddStringConstant(module, "SOURCES", TIELINE_SOURCES) < 0
        || PyModule_AddIntConstant(module, "LONGEST_SEED", LONGEST_SEED) < 0) {
        return -1;
    }
    return add_plain_lines(module) < 0 ? -1 : add_waiting(module);
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
    .m_slots = slots,
};

PyMODINIT_FUNC
PyInit__speedups(void)
{
    return PyModuleDef_Init(&definition);
}
