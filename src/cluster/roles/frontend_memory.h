/* frontend_memory.h - the memory of a frontend on this host, as a backend has mapped it: cards, and the inputs that
 * they name. It stays mapped as long as anyone may read there: the connection that it came by, and the requests whose
 * inputs executors copy from it, which may outlive the connection and the frontend. The link thread. */
#pragma once

#include <stdbool.h>

#include "cluster/peer/hello.h"
#include "cluster/peer/wire.h"
#include "core/data/card.h"

struct frontend_memory {
    const struct request_card *cards[HELLO_LANES_MAX]; /* [lanes][slots] */
    struct {
        const char *base;
        size_t bytes;
    } regions[HELLO_LANES_MAX + 1];
    uint32_t lanes, slots;
    uint32_t users; /* who may read it */
};

/* Without any memory yet; its first user is the caller. NULL: no memory for that. */
struct frontend_memory *frontend_memory_create(uint32_t lanes, uint32_t slots);
/* Maps one region; the descriptor still belongs to the caller. False: it is not as the frontend says, or was mapped
 * before. */
bool frontend_memory_map(struct frontend_memory *memory, const struct wire_region *region, int fd);
/* An input of a card, wherever its card has it; NULL: no card has so many. */
const struct card_input *frontend_memory_input(const struct frontend_memory *memory, uint32_t lane, uint32_t slot,
                                               uint32_t input);
/* Where so many bytes lie; NULL: outside of the region. */
const char *frontend_memory_at(const struct frontend_memory *memory, uint32_t region, uint64_t offset, uint64_t bytes);
/* One user more, and one fewer; NULL is allowed. The last one unmaps it. */
struct frontend_memory *frontend_memory_get(struct frontend_memory *memory);
void frontend_memory_put(struct frontend_memory *memory);
