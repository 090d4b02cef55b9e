/* frontend_memory.c - maps a frontend's memory, finds inputs in it, and unmaps it. */
#include "cluster/roles/frontend_memory.h"

#include <stdlib.h>
#include <sys/mman.h>

#include "core/data/visible.h"

struct frontend_memory *frontend_memory_create(uint32_t lanes, uint32_t slots) {
    struct frontend_memory *memory = calloc(1, sizeof(*memory));
    if (!memory)
        return NULL;
    memory->lanes = lanes;
    memory->slots = slots;
    memory->users = 1;
    return memory;
}

bool frontend_memory_map(struct frontend_memory *memory, const struct wire_region *r, int fd) {
    bool fits = r->cards
                    ? r->number < memory->lanes && !memory->cards[r->number] && r->bytes == cards_bytes(memory->slots)
                    : r->number <= HELLO_LANES_MAX && !memory->regions[r->number].base;
    const void *base = fits ? visible_look(fd, r->bytes) : NULL;
    if (base && r->cards) {
        memory->cards[r->number] = base;
    } else if (base) {
        memory->regions[r->number].base = base;
        memory->regions[r->number].bytes = r->bytes;
    }
    return base;
}

const struct card_input *frontend_memory_input(const struct frontend_memory *memory, uint32_t lane, uint32_t slot,
                                               uint32_t input) {
    const struct request_card *cards = memory->cards[lane];
    if (input < CARD_INPUTS)
        return &cards[slot].inputs[input];
    if (input >= TENSORS_MAX)
        return NULL;
    return &cards_more(cards, memory->slots, slot)[input - CARD_INPUTS];
}

const char *frontend_memory_at(const struct frontend_memory *memory, uint32_t region, uint64_t offset, uint64_t bytes) {
    if (region > HELLO_LANES_MAX || offset > memory->regions[region].bytes ||
        bytes > memory->regions[region].bytes - offset)
        return NULL;
    return memory->regions[region].base + offset;
}

struct frontend_memory *frontend_memory_get(struct frontend_memory *memory) {
    memory->users++;
    return memory;
}

void frontend_memory_put(struct frontend_memory *memory) {
    if (!memory || --memory->users > 0)
        return;
    for (uint32_t i = 0; i < HELLO_LANES_MAX; i++)
        if (memory->cards[i])
            munmap((void *)(uintptr_t)memory->cards[i], cards_bytes(memory->slots));
    for (uint32_t i = 0; i <= HELLO_LANES_MAX; i++)
        if (memory->regions[i].base)
            munmap((void *)(uintptr_t)memory->regions[i].base, memory->regions[i].bytes);
    free(memory);
}
