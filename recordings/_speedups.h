/* What the C files of this extension module share: how each adds what it has to the module. */

#ifndef TIELINE_RECORDINGS_SPEEDUPS_H
#define TIELINE_RECORDINGS_SPEEDUPS_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

/* Each returns -1 with an exception set where it fails. */
int add_line(PyObject *module);
int add_glance(PyObject *module);

#endif
