/* frontend_memory.h - the memory of a frontend on this host, mapped by a backend: cards, and the inputs that they name.
 * The memory stays mapped as long as it has users: the connection by which it came, and the requests whose inputs
 * executors copy from it. These may outlive the connection and the frontend. The link thread. */
#pragma once

#include <stdbool.h>

#include "cluster/peer/hello.h"
#include "cluster/peer/wire.h"
#include "core/data/card.h"

struct frontend_memory {
    const struct request_card *cards[HELLO_LANES_MAX]; /* [lanes][slots] cards */
    struct {
        const char *base;
        size_t bytes;
    } regions[HELLO_LANES_MAX + 1];
    uint32_t lanes, slots;
    uint32_t users; /* users that may read the memory */
};

/* Creates the struct without any mapping; the caller is its first user. NULL: no memory. */
struct frontend_memory *frontend_memory_create(uint32_t lanes, uint32_t slots);
/* Maps one region; the descriptor still belongs to the caller. False: the memory is not as the frontend says, or the
 * region was mapped before. */
bool frontend_memory_map(struct frontend_memory *memory, const struct wire_region *region, int fd);
/* An input of the card of this slot; NULL: no card has so many inputs. */
const struct card_input *frontend_memory_input(const struct frontend_memory *memory, uint32_t lane, uint32_t slot,
                                               uint32_t input);
/* The address of `bytes` at an offset of a region; NULL: they are not all in the region. */
const char *frontend_memory_at(const struct frontend_memory *memory, uint32_t region, uint64_t offset, uint64_t bytes);
/* Add and remove a user; NULL is allowed. The last user's removal unmaps the memory. */
struct frontend_memory *frontend_memory_get(struct frontend_memory *memory);
void frontend_memory_put(struct frontend_memory *memory);
