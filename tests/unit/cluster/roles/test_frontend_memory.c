/* test_frontend_memory.c - a frontend's memory is mapped as it says, found within its bounds only, and unmapped by its
 * last user. */
#include "cluster/roles/frontend_memory.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "core/data/visible.h"
#include "unit/test.h"

#define LANES 2
#define SLOTS 4
#define BYTES ((size_t)4096)

#define CARDS_BYTES cards_bytes(SLOTS)

static int made(size_t bytes, const char *text) {
    int fd = visible_create(bytes);
    char *at = visible_map(fd, bytes);
    assert_non_null(at);
    strcpy(at, text);
    munmap(at, bytes);
    return fd;
}

static bool is_mapped(const void *at) {
    return msync((void *)((uintptr_t)at & ~(uintptr_t)4095), 1, MS_ASYNC) == 0 || errno != ENOMEM;
}

TEST(test_regions_are_mapped_once_and_as_the_frontend_says) {
    struct frontend_memory *memory = frontend_memory_create(LANES, SLOTS);
    int inputs = made(BYTES, "inputs"), cards = made(CARDS_BYTES, "cards"), files[2];
    const struct wire_region good[] = {{.bytes = BYTES, .number = HELLO_LANES_MAX},
                                       {.bytes = CARDS_BYTES, .number = LANES - 1, .cards = 1}};
    const struct wire_region bad[] = {{.bytes = BYTES, .number = HELLO_LANES_MAX + 1},
                                      {.bytes = BYTES + 1, .number = 0},
                                      {.bytes = 0, .number = 0},
                                      {.bytes = CARDS_BYTES, .number = LANES, .cards = 1},
                                      {.bytes = CARDS_BYTES - 1, .number = 0, .cards = 1}};
    for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++)
        assert_false(frontend_memory_map(memory, &bad[i], bad[i].cards ? cards : inputs));
    assert_int_equal(pipe(files), 0);
    assert_false(frontend_memory_map(memory, &good[0], files[0])); /* a pipe is no memory */
    for (size_t i = 0; i < 2; i++) {
        int fd = good[i].cards ? cards : inputs;
        assert_true(frontend_memory_map(memory, &good[i], fd));
        assert_false(frontend_memory_map(memory, &good[i], fd));
    }
    assert_string_equal((const char *)memory->cards[LANES - 1], "cards");
    assert_string_equal(frontend_memory_at(memory, HELLO_LANES_MAX, 0, BYTES), "inputs");
    frontend_memory_put(memory);
    for (int i = 0; i < 4; i++)
        close((int[]){inputs, cards, files[0], files[1]}[i]);
}

TEST(test_nothing_is_found_outside_of_a_region) {
    struct frontend_memory *memory = frontend_memory_create(LANES, SLOTS);
    int fd = made(BYTES, "0123456789");
    assert_true(frontend_memory_map(memory, &(struct wire_region){.bytes = BYTES, .number = 1}, fd));
    close(fd);
    assert_memory_equal(frontend_memory_at(memory, 1, 3, 4), "3456", 4);
    assert_non_null(frontend_memory_at(memory, 1, BYTES - 1, 1));
    assert_null(frontend_memory_at(memory, 1, BYTES - 1, 2));
    assert_null(frontend_memory_at(memory, 1, BYTES + 1, 0));
    assert_null(frontend_memory_at(memory, 1, UINT64_MAX, 2));
    assert_null(frontend_memory_at(memory, 1, 2, UINT64_MAX));
    assert_null(frontend_memory_at(memory, 0, 0, 1)); /* not mapped */
    assert_null(frontend_memory_at(memory, HELLO_LANES_MAX + 1, 0, 1));
    frontend_memory_put(memory);
}

TEST(test_the_last_user_unmaps_it) {
    struct frontend_memory *memory = frontend_memory_create(LANES, SLOTS);
    int fd = made(BYTES, "still here");
    assert_true(frontend_memory_map(memory, &(struct wire_region){.bytes = BYTES}, fd));
    close(fd);
    const char *at = frontend_memory_at(memory, 0, 0, BYTES);
    assert_ptr_equal(frontend_memory_get(memory), memory);
    frontend_memory_put(memory); /* the connection's; a request's is left */
    assert_string_equal(at, "still here");
    frontend_memory_put(memory);
    assert_false(is_mapped(at));
    frontend_memory_put(NULL);
}

/* Those beyond the card lie behind all cards. */
TEST(test_inputs_of_a_card_are_found_within_it_and_behind_all) {
    size_t bytes = cards_bytes(SLOTS);
    int fd = visible_create(bytes);
    struct request_card *cards = visible_map(fd, bytes);
    assert_non_null(cards);
    cards[2].inputs[CARD_INPUTS - 1].offset = 15;
    cards_more(cards, SLOTS, 2)[0].offset = 16;
    cards_more(cards, SLOTS, SLOTS - 1)[CARD_INPUTS_MORE - 1].offset = 127;

    struct frontend_memory *memory = frontend_memory_create(LANES, SLOTS);
    assert_false(frontend_memory_map(
        memory, &(struct wire_region){.bytes = SLOTS * sizeof(*cards), .number = 1, .cards = 1}, fd));
    assert_true(frontend_memory_map(memory, &(struct wire_region){.bytes = bytes, .number = 1, .cards = 1}, fd));
    assert_int_equal(frontend_memory_input(memory, 1, 2, CARD_INPUTS - 1)->offset, 15);
    assert_int_equal(frontend_memory_input(memory, 1, 2, CARD_INPUTS)->offset, 16);
    assert_int_equal(frontend_memory_input(memory, 1, SLOTS - 1, TENSORS_MAX - 1)->offset, 127);
    assert_null(frontend_memory_input(memory, 1, SLOTS - 1, TENSORS_MAX));
    assert_null(frontend_memory_input(memory, 1, 0, UINT32_MAX));
    frontend_memory_put(memory);
    munmap(cards, bytes);
    close(fd);
}
