/* child.c - starts child processes that profile, reads their messages, and says what they died of. */
#include "model/profile/child.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/system/child_call.h"
#include "core/system/clock.h"
#include "core/system/log.h"
#include "model/profile/values.h"
#include "model/profile/worker.h"

#define SILENCE_NS  (120 * NS_PER_S)
#define POLL_MS     100 /* time after which a stop is noticed at the latest */
#define ATTEMPT_MAX 8   /* most forms of an optimised model, more than any engine has */

struct child {
    pid_t pid;
    int fd;                     /* pipe with the child's messages */
    struct worker_message last; /* last message of the child; all zeros before the first */
};

/* Starts `program` with the request as its standard input and its messages on a pipe. */
static int child_start(struct child *child, const char *program, const struct worker_request *request,
                       struct sy_error *err) {
    char *const argv[] = {"symphony", "profile", WORKER_ARGUMENT, NULL};
    int in[2], out[2], rc;
    memset(child, 0, sizeof(*child));
    if (pipe2(in, O_CLOEXEC))
        return error_set(err, -errno, "no pipe to a child process: %s", strerror(errno));
    if (pipe2(out, O_CLOEXEC)) {
        rc = error_set(err, -errno, "no pipe to a child process: %s", strerror(errno));
        goto err_in;
    }
    rc = worker_write(in[1], request, sizeof(*request)); /* fits into the pipe */
    if (!rc)
        rc = child_spawn(&child->pid, program, argv, in[0], out[1]);
    if (rc) {
        error_set(err, rc, "%s cannot be started: %s", program, strerror(-rc));
        close(out[0]);
    }
    child->fd = out[0];
    close(out[1]);
err_in:
    close(in[0]);
    close(in[1]);
    return rc;
}

/* The time for which the child's first thread, which does the work, has waited for a core: at nice 19, on a busy
 * machine, most of the time. 0: the kernel does not say. */
static int64_t starved_ns(const struct child *child) {
    char path[64];
    long long ns = 0;
    snprintf(path, sizeof(path), "/proc/%d/schedstat", (int)child->pid);
    FILE *from = fopen(path, "re");
    if (from && fscanf(from, "%*d %lld", &ns) != 1)
        ns = 0;
    if (from)
        fclose(from);
    return ns;
}

/* Waits for the child's next message: 0, -EPIPE when it has closed the pipe, -ETIMEDOUT, -EINTR when told to stop. Only
 * time in which the child has a core, or needs none, counts as silence. */
static int child_listen(struct child *child, const struct profile_options *options) {
    int64_t silence_ns = options->silence_ns ? options->silence_ns : SILENCE_NS;
    int64_t since_ns = clock_now_ns() - starved_ns(child);
    for (;;) {
        struct pollfd poll_fd = {.fd = child->fd, .events = POLLIN};
        int ready = poll(&poll_fd, 1, POLL_MS);
        if (ready > 0)
            return worker_read(child->fd, &child->last, sizeof(child->last));
        if (ready < 0 && errno != EINTR)
            return -errno;
        if (options->stop && atomic_load_explicit(options->stop, memory_order_relaxed)) /* no data goes with it */
            return -EINTR;
        if (clock_now_ns() - starved_ns(child) - since_ns > silence_ns)
            return -ETIMEDOUT;
    }
}

/* What the child was doing, for a sentence. */
static void doing(const struct child *child, char *text, size_t size) {
    if (strcmp(child->last.phase, "measuring") == 0)
        snprintf(text, size, "measuring a batch of %u", child->last.batch);
    else if (strcmp(child->last.phase, "trying") == 0)
        snprintf(text, size, "trying %u unlike items together", child->last.batch);
    else if (strcmp(child->last.phase, "optimising") == 0)
        snprintf(text, size, "trying an optimised copy of the model");
    else if (strcmp(child->last.phase, "preparing") == 0)
        snprintf(text, size, "trying a model that prepares its inputs");
    else if (strcmp(child->last.phase, "trying values") == 0)
        snprintf(text, size, "trying values of its inputs");
    else if (strcmp(child->last.phase, "warming up") == 0)
        snprintf(text, size, "running the sample '%.60s' of model_warmup", child->last.text);
    else
        snprintf(text, size, "%s", *child->last.phase ? "loading the model" : "starting");
}

/* Reaps a child that has closed its pipe, or kills it. `err` gets the sentence. */
static int child_end(struct child *child, int why, struct sy_error *err) {
    int status = 0;
    char what[128];
    doing(child, what, sizeof(what));
    if (why != -EPIPE)
        kill(child->pid, SIGKILL);
    while (waitpid(child->pid, &status, 0) < 0 && errno == EINTR) {
    }
    close(child->fd);
    if (why == -EINTR)
        return error_set(err, -EINTR, "stopped while %s", what);
    if (why == -ETIMEDOUT)
        return error_set(err, -ETIMEDOUT, "hung while %s, and was killed", what);
    if (WIFSIGNALED(status))
        return error_set(err, WTERMSIG(status) == SIGKILL ? -ENOMEM : -EIO, "killed by signal %d (%s)%s while %s",
                         WTERMSIG(status), strsignal(WTERMSIG(status)),
                         WTERMSIG(status) == SIGKILL ? ", as the system does when memory runs out," : "", what);
    return error_set(err, -EIO, "exited with status %d while %s", WEXITSTATUS(status), what);
}

/* What may have killed a child, and so what the next child leaves out. */
struct blame {
    bool cache, values;     /* whether another optimised model, or other values of inputs, may avoid the death */
    bool items;             /* whether not running unlike items together may avoid the death */
    bool by_values;         /* whether the child ended while values were tried */
    uint32_t attempt, step; /* form of optimised model, and step of values, that were in use */
};

/* Runs one child from its start to its end. 0 with the record, or -errno with whom to blame. */
static int child_run(const struct worker_request *request, const struct profile_options *options,
                     struct profile_progress *progress, struct profile_record *record, struct blame *blame,
                     struct sy_error *err) {
    struct child child;
    int rc = child_start(&child, options->program ? options->program : "/proc/self/exe", request, err);
    *blame = (struct blame){.cache = false};
    if (rc)
        return rc;
    while ((rc = child_listen(&child, options)) == 0 && child.last.kind == WORKER_PROGRESS) {
        child.last.phase[sizeof(child.last.phase) - 1] = child.last.text[sizeof(child.last.text) - 1] = '\0';
        progress->phase = child.last.phase;
        progress->batch = child.last.batch;
        if (options->progress)
            options->progress(options->context, progress);
    }
    progress->phase = "";
    if (rc) {
        if (options->stop && atomic_load_explicit(options->stop, memory_order_relaxed)) /* no data goes with it */
            rc = -EINTR;
        blame->attempt = child.last.attempt;
        blame->step = child.last.values;
        blame->by_values = child.last.blame_values;
        blame->items = rc != -EINTR && strcmp(child.last.phase, "trying") == 0;
        blame->cache = child.last.blame_cache && rc != -EINTR && !blame->items;
        rc = child_end(&child, rc, err);
        blame->values = child.last.blame_values && !blame->items && rc == -EIO && blame->step + 1 < VALUES_STEPS;
        return rc;
    }
    struct worker_message answer = child.last;
    blame->by_values = answer.blame_values;
    /* The child has said everything. It exits by itself; if it hangs while it does, it is killed. */
    do
        rc = child_listen(&child, options);
    while (rc == 0);
    child_end(&child, rc, NULL);
    if (answer.kind == WORKER_FAILED)
        return error_set(err, -EINVAL, "%.*s", (int)sizeof(answer.text) - 1, answer.text);
    *record = answer.record;
    return 0;
}

int profile_in_child(const struct served_model *model, const struct profile_options *options,
                     struct profile_progress *progress, struct profile_record *record, struct sy_error *err) {
    struct worker_request *request = calloc(1, sizeof(*request));
    struct sy_error why = {""}, first = {""}; /* sentences of the last try and of the first */
    bool again = true;
    int rc = -ENOMEM;
    if (!request)
        return error_set(err, rc, "no memory for a child process");
    snprintf(request->name, sizeof(request->name), "%s", model->name);
    snprintf(request->path, sizeof(request->path), "%s", model->path ? model->path : "");
    snprintf(request->folder, sizeof(request->folder), "%s", model->folder ? model->folder : "");
    if (model->op_libraries)
        request->op_libraries = *model->op_libraries;
    snprintf(request->engine, sizeof(request->engine), "%s", options->engine->name);
    snprintf(request->provider, sizeof(request->provider), "%s", options->provider);
    request->device = options->device;
    request->core = options->core;
    request->has_cache_dir = options->cache_dir;
    snprintf(request->cache_dir, sizeof(request->cache_dir), "%s", options->cache_dir ? options->cache_dir : "");
    request->batch_max = options->batch_max;
    while (again) {
        struct blame blame;
        rc = child_run(request, options, progress, record, &blame, &why);
        first = *first.text ? first : why;
        why = rc && blame.by_values ? first : why;
        again = false;
        if (rc && blame.items && !request->untried) {
            log_warn("model not tried with unlike items", "model=%s reason=\"%s\"", model->name, why.text);
            request->untried = true;
            request->attempt = blame.attempt;
            request->values = blame.step;
            again = true;
        } else if (rc && blame.cache && blame.attempt < ATTEMPT_MAX) {
            log_warn("optimised model set aside", "model=%s form=%u reason=\"%s\"", model->name, blame.attempt,
                     why.text);
            request->attempt = blame.attempt + 1;
            again = true;
        } else if (rc && blame.values) {
            log_warn("values of inputs set aside", "model=%s step=%u reason=\"%s\"", model->name, blame.step, why.text);
            request->attempt = 0;
            request->values = blame.step + 1;
            again = true;
        }
    }
    free(request);
    return rc ? error_set(err, rc, "%s", why.text) : 0;
}
