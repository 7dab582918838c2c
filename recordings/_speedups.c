/* The parts of writing a recording that every call passes, in C: whoever uses one has it in Python, too.
 *
 * Owns bytes in, bytes out: no state, no file, no clock. Whatever is out of the ordinary is left to Python.
 */

#include "_speedups.h"

#include <stdlib.h>

/* Whoever compiles says by what the sources are known again. */
#ifndef TIELINE_SOURCES
#define TIELINE_SOURCES ""
#endif

/* What adds the functions of each file. */
static int (*const parts[])(PyObject *) = {
    add_line,
    add_glance,
};

static int
start(PyObject *module)
{
    const char *pure = getenv("TIELINE_PURE_PYTHON");
    if (pure != NULL && *pure != '\0') {
        PyErr_SetString(PyExc_ImportError, "TIELINE_PURE_PYTHON is set");
        return -1;
    }
    if (PyModule_AddStringConstant(module, "SOURCES", TIELINE_SOURCES) < 0) {
        return -1;
    }
    for (size_t each = 0; each < sizeof(parts) / sizeof(parts[0]); each++) {
        if (parts[each](module) < 0) {
            return -1;
        }
    }
    return 0;
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
