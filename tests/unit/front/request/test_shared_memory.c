/* test_shared_memory.c - the registry, and views of it, over real shared memory. */
#include "unit/test.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "front/request/shared_memory.h"

#define BYTES 64

static char key[64];

static int object_make(void **state) {
    int fd;
    snprintf(key, sizeof(key), "/symphony-unit-%d", (int)getpid());
    fd = shm_open(key, O_CREAT | O_RDWR, 0600);
    return fd < 0 || ftruncate(fd, BYTES) < 0 || close(fd) < 0;
}

static int object_end(void **state) {
    return shm_unlink(key);
}

static void object_resize(long bytes) {
    int fd = shm_open(key, O_RDWR, 0);
    assert_int_equal(ftruncate(fd, bytes), 0);
    close(fd);
}

static struct infer_shared place(const char *name, uint64_t offset, uint64_t bytes) {
    return (struct infer_shared){.region = name, .region_length = strlen(name), .offset = offset, .bytes = bytes};
}

TEST(names_are_taken_once) {
    struct shared_memory *memory;
    struct shared_region *regions[SHARED_REGIONS_MAX];
    struct sy_error err;
    assert_int_equal(shared_memory_create(&memory, NULL), 0);
    assert_int_equal(shared_memory_register(memory, "a", key, 0, BYTES, &err), 0);
    assert_int_equal(shared_memory_register(memory, "b", key, 16, BYTES - 16, &err), 0);
    assert_int_equal(shared_memory_register(memory, "a", key, 0, 1, &err), 409);
    assert_int_equal(shared_memory_register(memory, "c", key, 1, BYTES, &err), 400);
    assert_int_equal(shared_memory_register(memory, "c", key, UINT64_MAX, 2, &err), 400);
    assert_int_equal(shared_memory_register(memory, "c", "/symphony-none", 0, 1, &err), 400);
    assert_int_equal(shared_memory_register(memory, "", key, 0, 1, &err), 400);
    assert_int_equal(shared_memory_register(memory, "\xff", key, 0, 1, &err), 400);
    assert_int_equal(shared_memory_list(memory, "", regions), 2);
    shared_region_put(regions[0]);
    shared_region_put(regions[1]);
    shared_memory_unregister(memory, "none");
    shared_memory_unregister(memory, "a");
    assert_int_equal(shared_memory_list(memory, "", regions), 1);
    assert_string_equal(regions[0]->name, "b");
    shared_region_put(regions[0]);
    assert_int_equal(shared_memory_list(memory, "a", regions), 0);
    shared_memory_destroy(memory);
}

TEST(views_follow_the_registry) {
    struct shared_view view = {0};
    struct infer_shared a = place("a", 8, 8), beyond = place("a", 57, 8), wrapped = place("a", UINT64_MAX, 8);
    struct sy_error err;
    int status;
    assert_null(shared_view_find(&view, &a, true, &status, &err));
    assert_int_equal(status, 501);
    assert_int_equal(shared_memory_create(&view.memory, NULL), 0);
    assert_null(shared_view_find(&view, &a, true, &status, &err));
    assert_int_equal(status, 404);
    assert_int_equal(shared_memory_register(view.memory, "a", key, 0, BYTES, &err), 0);
    struct shared_region *region = shared_view_find(&view, &a, true, &status, &err);
    assert_non_null(region);
    assert_null(shared_view_find(&view, &beyond, true, &status, &err));
    assert_int_equal(status, 400);
    assert_null(shared_view_find(&view, &wrapped, true, &status, &err));
    assert_int_equal(status, 400);
    shared_memory_unregister(view.memory, NULL); /* while a request has it */
    assert_null(shared_view_find(&view, &a, true, &status, &err));
    assert_int_equal(status, 404);
    char data[8];
    assert_int_equal(shared_region_read(region, &a, data, &err), 0);
    shared_region_put(region);
    shared_view_end(&view);
    shared_memory_destroy(view.memory);
}

/* The memory of a region that is registered no more is its client's to free, whether somebody asks for it again or not.
 */
TEST(what_is_registered_no_more_is_let_go) {
    struct shared_view view = {0};
    struct infer_shared a = place("a", 8, 8);
    struct sy_error err;
    int status;
    shared_view_look(&view);
    assert_int_equal(shared_memory_create(&view.memory, NULL), 0);
    assert_int_equal(shared_memory_register(view.memory, "a", key, 0, BYTES, &err), 0);
    struct shared_region *region = shared_view_find(&view, &a, true, &status, &err);
    shared_view_look(&view);
    assert_int_equal(view.count, 1);
    shared_memory_unregister(view.memory, "a");
    shared_view_look(&view);
    assert_int_equal(view.count, 0);
    assert_int_equal(atomic_load(&region->references), 1); /* ours */
    shared_region_put(region);
    assert_int_equal(shared_memory_register(view.memory, "a", key, 0, BYTES, &err), 0);
    shared_region_put(shared_view_find(&view, &a, true, &status, &err));
    assert_int_equal(view.count, 1);
    shared_view_end(&view);
    shared_memory_destroy(view.memory);
}

TEST(tensors_go_in_and_out) {
    struct shared_view view = {0};
    struct infer_shared at = place("r", 8, 8);
    struct sy_error err;
    char data[8];
    int status;
    assert_int_equal(shared_memory_create(&view.memory, NULL), 0);
    assert_int_equal(shared_memory_register(view.memory, "r", key, 16, 32, &err), 0);
    struct shared_region *region = shared_view_find(&view, &at, true, &status, &err);
    assert_int_equal(shared_region_write(region, &at, "abcdefgh", 8, &err), 0);
    assert_int_equal(shared_region_write(region, &at, "abcdefghi", 9, &err), 400);
    assert_int_equal(shared_region_read(region, &at, data, &err), 0);
    assert_memory_equal(data, "abcdefgh", 8);
    object_resize(28); /* 4 of the 8 bytes are left */
    assert_int_equal(shared_region_read(region, &at, data, &err), 400);
    assert_int_equal(shared_region_write(region, &at, "abcdefgh", 8, &err), 400);
    object_resize(BYTES);
    assert_int_equal(shared_region_read(region, &at, data, &err), 0);
    assert_memory_equal(data, "abcd\0\0\0\0", 8);
    shared_region_put(region);
    shared_view_end(&view);
    shared_memory_destroy(view.memory);
}

/* A string of gRPC may hold zeros, and be longer than any name. */
TEST(names_end_where_they_say) {
    static const char zeros[4 * SHARED_NAME_MAX] = "r";
    struct shared_view view = {0};
    struct sy_error err;
    int status;
    assert_int_equal(shared_memory_create(&view.memory, NULL), 0);
    assert_int_equal(shared_memory_register(view.memory, "r", key, 0, BYTES, &err), 0);
    for (size_t length = 0; length <= sizeof(zeros); length++) {
        struct infer_shared at = {.region = zeros, .region_length = length, .bytes = 8};
        struct shared_region *region = shared_view_find(&view, &at, true, &status, &err);
        if (length == 1)
            assert_non_null(region);
        else
            assert_int_equal(status, 404);
        shared_region_put(region);
        status = 0;
    }
    shared_view_end(&view);
    shared_memory_destroy(view.memory);
}

TEST(strangers_have_none) {
    struct shared_view view = {0};
    struct infer_shared a = place("a", 8, 8);
    struct sy_error err;
    int status;
    assert_int_equal(shared_memory_allows(NULL, true, &err), 501);
    assert_non_null(strstr(err.text, "--shared-memory"));
    assert_int_equal(shared_memory_create(&view.memory, "//symphony-unit"), 0);
    assert_int_equal(shared_memory_allows(view.memory, true, &err), 0);
    assert_int_equal(shared_memory_allows(view.memory, false, &err), 403);
    assert_int_equal(shared_memory_register(view.memory, "a", key, 0, BYTES, &err), 0);
    assert_null(shared_view_find(&view, &a, false, &status, &err));
    assert_int_equal(status, 403);
    shared_region_put(shared_view_find(&view, &a, true, &status, &err));
    assert_int_equal(status, 0);
    shared_view_end(&view);
    shared_memory_destroy(view.memory);
}

TEST(keys_begin_with_the_prefix) {
    struct shared_memory *memory;
    struct sy_error err;
    assert_int_equal(shared_memory_create(&memory, "/elsewhere-"), 0);
    assert_int_equal(shared_memory_register(memory, "a", key, 0, BYTES, &err), 400);
    assert_non_null(strstr(err.text, "'/elsewhere-'"));
    shared_memory_destroy(memory);
    assert_int_equal(shared_memory_create(&memory, "symphony-unit-"), 0);
    assert_int_equal(shared_memory_register(memory, "a", key + 1, 0, BYTES, &err), 0); /* without its slash */
    assert_int_equal(shared_memory_register(memory, "b", "/symphony-unit", 0, BYTES, &err), 400);
    shared_memory_destroy(memory);
}

/* A test run as root may give the object away; another's is what is there then. */
TEST(objects_of_other_users_are_refused) {
    struct shared_memory *memory;
    struct sy_error err;
    int fd = shm_open(key, O_RDWR, 0);
    int given = fchown(fd, 1, (gid_t)-1);
    close(fd);
    if (given)
        skip();
    assert_int_equal(shared_memory_create(&memory, NULL), 0);
    assert_int_equal(shared_memory_register(memory, "a", key, 0, BYTES, &err), 403);
    assert_non_null(strstr(err.text, "another user"));
    shared_memory_destroy(memory);
    fd = shm_open(key, O_RDWR, 0);
    assert_int_equal(fchown(fd, geteuid(), (gid_t)-1), 0);
    close(fd);
}

int main(void) {
    return tests_run(object_make, object_end);
}
