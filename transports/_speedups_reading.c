/* A read of a link of lines: one whole line goes to the receiver from here.
 *
 * Owns the bytes between the descriptor and the receiver where nothing is out of the ordinary, with the interpreter's
 * lock held: such a read does not wait, and the loop lets go of the lock in every turn. All else is for the subclass,
 * which is in Python: pieces of lines, several of them, ends and faults.
 */

#include "_speedups.h"
#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
    READ_BYTES = 65536,
    READS = 16
};

/* Whether these bytes are one line that the framer would give as it is: not blank, and without a carriage return. */
static inline int
is_line(const char *data, Py_ssize_t size)
{
    return size > 1 && data[size - 1] == '\n' && (unsigned char)data[0] >= '!' && data[size - 2] != '\r' &&
           memchr(data, '\n', (size_t)size) == data + size - 1;
}

/* Read into `buffer`; where signals come in between, have them seen to and read on. -2: one of them has raised. */
static Py_ssize_t
read_some(Lines *self, char *buffer)
{
    for (;;) {
        Py_ssize_t done;
        int number;
        if (self->is_plain) {
            done = read(self->read_fd, buffer, READ_BYTES);
            number = errno;
        }
        else {
            /* What is in the middle of a long message takes long. */
            int descriptor = self->read_fd;
            Py_BEGIN_ALLOW_THREADS
            done = read(descriptor, buffer, READ_BYTES);
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

/* Bytes of READ_BYTES that nobody else has. */
static PyObject *
take_spare(Turn *turn)
{
    PyObject *spare = turn->spare;
    turn->spare = NULL;
    return spare != NULL ? spare : PyBytes_FromStringAndSize(NULL, READ_BYTES);
}

static void
keep_spare(Turn *turn, PyObject *spare)
{
    PyObject *other = turn->spare;
    turn->spare = spare;
    Py_XDECREF(other);
}

/* What was read, as bytes of their own. Takes the spare. */
static PyObject *
bytes_of(Turn *turn, PyObject *spare, Py_ssize_t size)
{
    if (size > SHORT_BYTES) {
        /* It is left NULL where that fails. */
        (void)_PyBytes_Resize(&spare, size);
        return spare;
    }
    PyObject *data = PyBytes_FromStringAndSize(PyBytes_AS_STRING(spare), size);
    keep_spare(turn, spare);
    return data;
}

static PyObject *
give(Lines *self, PyObject *line)
{
    PyObject *message = self->message;
    if (message == NULL) {
        Py_DECREF(line);
        PyErr_SetString(PyExc_AttributeError, "_message");
    }
    else {
        /* The receiver may have another one taken in its place. */
        Py_INCREF(message);
        PyObject *result = PyObject_CallOneArg(message, line);
        Py_DECREF(message);
        Py_DECREF(line);
        if (result != NULL) {
            Py_DECREF(result);
            Py_RETURN_NONE;
        }
    }
    if (!PyErr_ExceptionMatches(PyExc_Exception)) {
        return NULL;
    }
    /* A fault of one message's receiver must not end the stream. */
    PyObject *fault = lines_caught();
    State *state = lines_state(self);
    if (state == NULL) {
        Py_XDECREF(fault);
        return NULL;
    }
    return lines_call(self, state->tell_fault, fault);
}

static PyObject *
nothing_read(Lines *self, int number)
{
    if (number == EAGAIN || number == EWOULDBLOCK) {
        Py_RETURN_NONE;
    }
    State *state = lines_state(self);
    return state == NULL ? NULL : lines_call(self, state->nothing_read, PyLong_FromLong(number));
}

/* Whether a socket was reset, which its end alone does not tell. -1: an exception is raised. */
static int
look_for_reset(Lines *self)
{
    int number = 0;
    socklen_t size = sizeof(number);
    if (!self->is_reset) {
        if (getsockopt(self->read_fd, SOL_SOCKET, SO_ERROR, &number, &size) < 0) {
            PyErr_SetFromErrno(PyExc_OSError);
            return -1;
        }
        if (number == 0) {
            return 0;
        }
    }
    State *state = lines_state(self);
    PyObject *done = state == NULL ? NULL : lines_call(self, state->was_reset, PyLong_FromLong(number));
    Py_XDECREF(done);
    return done == NULL ? -1 : 0;
}

/* One read, and what comes of it. `turn` is not let go of meanwhile. */
static PyObject *
read_once(Lines *self, Turn *turn, Py_ssize_t more)
{
    PyObject *spare = take_spare(turn);
    if (spare == NULL) {
        return NULL;
    }
    char *buffer = PyBytes_AS_STRING(spare);
    Py_ssize_t size = read_some(self, buffer);
    if (size <= 0) {
        int number = size == 0 ? 0 : errno;
        keep_spare(turn, spare);
        return size == -2 ? NULL : nothing_read(self, number);
    }
    if (self->is_socket && look_for_reset(self) < 0) {
        keep_spare(turn, spare);
        return NULL;
    }
    turn->tick++;
    if (self->is_plain && is_line(buffer, size)) {
        PyObject *line = bytes_of(turn, spare, size - 1);
        return line == NULL ? NULL : give(self, line);
    }
    PyObject *data = bytes_of(turn, spare, size);
    State *state = data == NULL ? NULL : lines_state(self);
    if (state == NULL) {
        Py_XDECREF(data);
        return NULL;
    }
    return lines_call_two(self, state->feed, data, PyLong_FromSsize_t(more));
}

PyObject *
lines_on_readable(PyObject *object, PyObject *const *args, Py_ssize_t count)
{
    Lines *self = (Lines *)object;
    Py_ssize_t more = READS - 1;
    if (count == 1) {
        more = PyLong_AsSsize_t(args[0]);
        if (more == -1 && PyErr_Occurred()) {
            return NULL;
        }
    }
    else if (count != 0) {
        PyErr_SetString(PyExc_TypeError, "how many more reads, and no more");
        return NULL;
    }
    PyObject *turn = self->turn;
    if (turn == NULL) {
        PyErr_SetString(PyExc_AttributeError, "_turn");
        return NULL;
    }
    /* Whoever is called meanwhile, a signal's handler too, may begin the link anew with another one. */
    Py_INCREF(turn);
    PyObject *done = read_once(self, (Turn *)turn, more);
    Py_DECREF(turn);
    return done;
}
