/* test_child.c - what becomes of children that crash, exit, hang or talk nonsense. This program is also the child: it
 * misbehaves as the model's name says. */
#include "unit/test.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "core/util/container.h"
#include "core/util/time.h"
#include "model/profile/child.h"
#include "model/profile/worker.h"

/* ---- the child ---- */

static void say(const struct worker_request *request, const char *phase, uint32_t batch, bool blame_cache) {
    struct worker_message message = {
        .kind = WORKER_PROGRESS, .batch = batch, .attempt = request->attempt, .blame_cache = blame_cache};
    snprintf(message.phase, sizeof(message.phase), "%s", phase);
    worker_write(WORKER_FD, &message, sizeof(message));
}

static void die(int number) {
    signal(number, SIG_DFL); /* a sanitizer's handler would make an exit of it */
    raise(number);
}

static int misbehave(void) {
    static struct worker_request request;
    if (worker_read(STDIN_FILENO, &request, sizeof(request)))
        return 99;
    const char *name = request.name;
    if (strcmp(name, "exits") == 0)
        return 3;
    say(&request, "loading", 0, false);
    if (strcmp(name, "hangs") == 0)
        pause();
    if (strcmp(name, "crashes while loading") == 0)
        die(SIGSEGV);
    if (strcmp(name, "nonsense") == 0)
        return worker_write(WORKER_FD, "nonsense", 8);
    if (strncmp(name, "needs attempt", 13) == 0) {
        say(&request, "optimising", 1, true);
        if (request.attempt < 1)
            die(SIGSEGV);
        say(&request, "measuring", 4, true);
        if (request.attempt < 2)
            die(SIGABRT);
    }
    say(&request, "measuring", 8, false);
    if (strcmp(name, "crashes while measuring") == 0)
        die(SIGSEGV);
    if (strcmp(name, "eats memory") == 0)
        die(SIGKILL);
    struct worker_message message = {.kind = strcmp(name, "says why") ? WORKER_RESULT : WORKER_FAILED,
                                     .text = "the model is of no use"};
    message.record.batch_max = request.batch_max;
    message.record.weights_bytes = request.attempt;
    worker_write(WORKER_FD, &message, sizeof(message));
    if (strcmp(name, "hangs at its end") == 0)
        pause();
    return 0;
}

/* ---- the parent ---- */

struct seen {
    uint32_t count, last_batch;
    char phases[256];
};

static void see(void *context, const struct profile_progress *progress) {
    struct seen *seen = context;
    seen->count++;
    seen->last_batch = progress->batch;
    strcat(strcat(seen->phases, progress->phase), " ");
}

static int run(const char *name, struct profile_options *options, struct profile_record *record, struct sy_error *err) {
    static struct served_model model;
    static const struct engine_ops engine = {.name = "any"};
    struct profile_progress progress = {.model = name, .count = 1};
    snprintf(model.name, sizeof(model.name), "%s", name);
    options->engine = &engine;
    options->provider = "cpu";
    options->core = -1;
    options->batch_max = 24;
    return profile_in_child(&model, options, &progress, record, err);
}

/* The same for a child that is ended because it hangs: the silence that is allowed is doubled until the child has had
 * the time to say `phase`, or to answer, however slow the machine is. */
static int run_hanging(const char *name, const char *phase, struct profile_record *record, struct sy_error *err) {
    for (int64_t silence_ns = 200 * NS_PER_MS;; silence_ns *= 2) {
        struct seen seen = {0};
        struct profile_options options = {.progress = see, .context = &seen, .silence_ns = silence_ns};
        int rc = run(name, &options, record, err);
        if (rc != -ETIMEDOUT || strstr(seen.phases, phase))
            return rc;
    }
}

TEST(a_good_child_answers) {
    struct seen seen = {0};
    struct profile_options options = {.progress = see, .context = &seen};
    struct profile_record record;
    assert_int_equal(run("good", &options, &record, NULL), 0);
    assert_int_equal(record.batch_max, 24);
    assert_string_equal(seen.phases, "loading measuring ");
    assert_int_equal(seen.last_batch, 8);
}

/* As a driver may that is asked to let go of its device. */
TEST(a_hang_after_the_answer_is_ended) {
    struct profile_record record;
    assert_int_equal(run_hanging("hangs at its end", "no such phase", &record, NULL), 0);
    assert_int_equal(record.batch_max, 24);
}

TEST(deaths_are_described) {
    static const struct {
        const char *name;
        int rc;
        const char *want;
    } cases[] = {
        {"says why", -EINVAL, "the model is of no use"},
        {"exits", -EIO, "exited with status 3 while starting"},
        {"crashes while loading", -EIO, "killed by signal 11 (Segmentation fault) while loading the model"},
        {"crashes while measuring", -EIO, "killed by signal 11 (Segmentation fault) while measuring a batch of 8"},
        {"eats memory", -ENOMEM,
         "killed by signal 9 (Killed), as the system does when memory runs out, while measuring a batch of 8"},
        {"nonsense", -EIO, "exited with status 0 while loading the model"},
    };
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        struct sy_error err = {""};
        struct profile_record record;
        struct profile_options options = {0};
        assert_int_equal(run(cases[i].name, &options, &record, &err), cases[i].rc);
        assert_string_equal(err.text, cases[i].want);
    }
}

TEST(a_hang_is_ended_and_described) {
    struct sy_error err = {""};
    struct profile_record record;
    assert_int_equal(run_hanging("hangs", "loading", &record, &err), -ETIMEDOUT);
    assert_string_equal(err.text, "hung while loading the model, and was killed");
}

/* The first form crashes when tried, the second when measured: the third is what is left. */
TEST(a_crash_with_an_optimised_copy_is_not_the_models_end) {
    struct seen seen = {0};
    struct profile_options options = {.progress = see, .context = &seen};
    struct profile_record record;
    assert_int_equal(run("needs attempt 2", &options, &record, NULL), 0);
    assert_int_equal(record.weights_bytes, 2);
    assert_string_equal(seen.phases, "loading optimising loading optimising measuring loading optimising measuring "
                                     "measuring ");
}

TEST(a_stop_ends_it) {
    static const _Atomic bool stop = true;
    struct profile_options options = {.stop = &stop};
    struct profile_record record;
    struct sy_error err = {""};
    assert_int_equal(run("hangs", &options, &record, &err), -EINTR);
    assert_non_null(strstr(err.text, "stopped while "));
}

TEST(a_program_that_is_not_there) {
    struct profile_options options = {.program = "/nonexistent/symphony"};
    struct profile_record record;
    struct sy_error err = {""};
    assert_int_equal(run("good", &options, &record, &err), -ENOENT);
    assert_string_equal(err.text, "/nonexistent/symphony cannot be started: No such file or directory");
}

int main(int argc, char **argv) {
    if (argc == 3 && strcmp(argv[2], WORKER_ARGUMENT) == 0)
        return misbehave();
    return tests_run(NULL, NULL);
}
