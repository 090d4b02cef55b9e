/* test_private_copy.c - copies of models whose weights lie in files of their own: shared, as they were, and gone after.
 */
/* Starts threads. */
#include "unit/temp_folder.h"
#include "unit/test.h"

#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "back/engine/private_copy.h"

/* As protobuf writes the entries of a TensorProto.external_data. */
#define NAMES "\x0a\x08location\x12\x0bweights.bin\x0a\x08location\x12\x0bw/other.bin\x0a\x08location\x12\x07missing"

struct fixture {
    char folder[64], model[128], weights[128], other[128];
};

static void file_put(const char *path, const char *text) {
    FILE *to = fopen(path, "wb");
    assert_non_null(to);
    assert_true(fputs(text, to) >= 0);
    fclose(to);
}

static int fixture_make(void **state) {
    static struct fixture f;
    temp_folder(f.folder);
    snprintf(f.model, sizeof(f.model), "%s/model.onnx", f.folder);
    snprintf(f.weights, sizeof(f.weights), "%s/weights.bin", f.folder);
    snprintf(f.other, sizeof(f.other), "%s/w/other.bin", f.folder);
    char sub[128];
    snprintf(sub, sizeof(sub), "%s/w", f.folder);
    assert_int_equal(mkdir(sub, 0700), 0);
    file_put(f.model, NAMES);
    file_put(f.weights, "first");
    file_put(f.other, "second");
    setenv("TMPDIR", sub, 1);
    *state = &f;
    return 0;
}

static int fixture_remove(void **state) {
    const struct fixture *f = *state;
    unsetenv("TMPDIR");
    return folder_remove(f->folder);
}

/* What lies beside a copy's model. */
static void holds(const char *model, const char *name, const char *want) {
    char path[512], got[128] = "";
    snprintf(path, sizeof(path), "%.*s%s", (int)(strrchr(model, '/') + 1 - model), model, name);
    FILE *from = fopen(path, "rb");
    assert_non_null(from);
    got[fread(got, 1, sizeof(got) - 1, from)] = '\0';
    fclose(from);
    assert_string_equal(got, want);
}

TEST_WITH(a_copy_stays_as_it_was_and_is_shared, fixture_make, fixture_remove) {
    const struct fixture *f = *state;
    struct private_copy *one, *same, *later;
    const char *path = private_copy_open(f->model, &one);
    assert_non_null(one);
    assert_string_not_equal(path, f->model);
    assert_string_equal(private_copy_open(f->model, &same), path);
    assert_ptr_equal(one, same);
    file_put(f->weights, "overwritten");
    holds(path, "model.onnx", NAMES);
    holds(path, "weights.bin", "first");
    holds(path, "w/other.bin", "second");
    const char *path_later = private_copy_open(f->model, &later);
    assert_string_not_equal(path_later, path);
    holds(path_later, "weights.bin", "overwritten");
    struct stat st;
    char folder[512];
    snprintf(folder, sizeof(folder), "%.*s", (int)(strrchr(path, '/') - path), path);
    assert_int_equal(stat(folder, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0700);
    private_copy_put(one);
    assert_int_equal(access(folder, F_OK), 0);
    private_copy_put(same);
    assert_int_equal(access(folder, F_OK), -1);
    private_copy_put(later);
}

TEST_WITH(a_model_of_one_file_is_not_copied, fixture_make, fixture_remove) {
    const struct fixture *f = *state;
    struct private_copy *copy;
    file_put(f->model, "no names");
    assert_string_equal(private_copy_open(f->model, &copy), f->model);
    assert_null(copy);
    private_copy_put(copy);
}

static sem_t begun, go_on;

/* A file has become too long. */
static void hold(int number) {
    sem_post(&begun);
    sem_wait(&go_on);
}

static void *open_and_put(void *path) {
    struct private_copy *copy;
    private_copy_open(path, &copy);
    private_copy_put(copy);
    return NULL;
}

/* A large copy is held in its middle, by a signal's handler; then its file may not grow, and it is given up. */
TEST_WITH(nobody_waits_for_a_copy_of_other_files, fixture_make, fixture_remove) {
    enum { LONG = 4096, PARENTS = 4 };
    const struct fixture *f = *state;
    struct private_copy *small;
    struct rlimit before, least;
    pthread_t thread;
    char folder[128], model[160], weights[160], text[2 * LONG];
    memset(text, 'x', sizeof(text) - 1);
    text[sizeof(text) - 1] = '\0';
    snprintf(folder, sizeof(folder), "%s/large", f->folder);
    snprintf(model, sizeof(model), "%s/model.onnx", folder);
    snprintf(weights, sizeof(weights), "%s/weights.bin", folder);
    assert_int_equal(mkdir(folder, 0700), 0);
    file_put(model, NAMES);
    file_put(weights, text);
    sem_init(&begun, 0, 0);
    sem_init(&go_on, 0, 0);
    signal(SIGXFSZ, hold);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    least = (struct rlimit){LONG, before.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &least), 0);
    assert_int_equal(pthread_create(&thread, NULL, open_and_put, model), 0);
    while (sem_wait(&begun)) {
    }
    private_copy_open(f->model, &small);
    assert_non_null(small);
    private_copy_put(small);
    for (int i = 0; i < PARENTS; i++) /* it is tried everywhere */
        sem_post(&go_on);
    pthread_join(thread, NULL);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
}

TEST_WITH(without_room_the_original_is_taken, fixture_make, fixture_remove) {
    const struct fixture *f = *state;
    struct private_copy *copy;
    struct rlimit before, none = {0, RLIM_INFINITY};
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    none.rlim_max = before.rlim_max;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &none), 0); /* no file may grow */
    const char *path = private_copy_open(f->model, &copy);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    assert_string_equal(path, f->model);
    assert_null(copy);
}
