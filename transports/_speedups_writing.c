/* A line that is written at once.
 *
 * Owns the one write of a line where nothing waits before it, with the interpreter's lock held: it takes what the
 * system takes, and does not wait. What is left of it, and what is refused, is for the subclass, which is in Python.
 */

#include "_speedups.h"
#include <errno.h>
#include <unistd.h>

/* Write, without waiting; where signals come in between, have them seen to and write on. -2: one of them has raised. */
static Py_ssize_t
write_some(Lines *self, const char *data, Py_ssize_t size)
{
    for (;;) {
        Py_ssize_t done;
        int number;
        if (self->waits && size <= SHORT_BYTES) {
            done = write(self->write_fd, data, (size_t)size);
            number = errno;
        }
        else {
            /* A file on a slow disk keeps us. */
            int descriptor = self->write_fd;
            Py_BEGIN_ALLOW_THREADS
            done = write(descriptor, data, (size_t)size);
            number = errno;
            Py_END_ALLOW_THREADS
        }
        errno = number;
        if (done >= 0 || number != EINTR) {
            return done;
        }
        if (PyErr_CheckSignals() < 0) {
            return -2;
        }
    }
}

static PyObject *
refused(Lines *self, PyObject *line, int number)
{
    State *state = lines_state(self);
    if (state == NULL) {
        return NULL;
    }
    errno = number;
    PyErr_SetFromErrno(PyExc_OSError);
    return lines_call_two(self, state->refused, Py_NewRef(line), lines_caught());
}

PyObject *
lines_send_line(PyObject *object, PyObject *line)
{
    Lines *self = (Lines *)object;
    Turn *turn = (Turn *)self->turn;
    if (turn == NULL) {
        PyErr_SetString(PyExc_AttributeError, "_turn");
        return NULL;
    }
    if (!PyBytes_Check(line)) {
        PyErr_SetString(PyExc_TypeError, "a line is bytes");
        return NULL;
    }
    const char *data = PyBytes_AS_STRING(line);
    Py_ssize_t size = PyBytes_GET_SIZE(line);
    if (turn->batching || self->tick == turn->tick || self->queued || self->is_mute) {
        State *state = lines_state(self);
        if (state == NULL) {
            return NULL;
        }
        return lines_call(self, state->send, PyBytes_FromStringAndSize(data, size ? size - 1 : 0));
    }
    self->tick = turn->tick;
    Py_ssize_t done = write_some(self, data, size);
    if (done == size) {
        Py_RETURN_NONE;
    }
    if (done < 0) {
        return done == -2 ? NULL : refused(self, line, errno);
    }
    State *state = lines_state(self);
    return state == NULL ? NULL : lines_call_two(self, state->took, Py_NewRef(line), PyLong_FromSsize_t(done));
}
