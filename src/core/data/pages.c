/* pages.c - counts pages, and keeps the list of models by last use. */
#include "core/data/pages.h"

#include "core/util/assert.h"

void pages_init(struct pages *pages, struct pages_entry *entries, uint32_t models, uint32_t total) {
    *pages =
        (struct pages){.entries = entries, .total = total, .free = total, .oldest = PAGES_NONE, .newest = PAGES_NONE};
    for (uint32_t m = 0; m < models; m++)
        entries[m] = (struct pages_entry){0};
}

static void list_append(struct pages *pages, uint32_t model) {
    struct pages_entry *entry = &pages->entries[model];
    entry->older = pages->newest;
    entry->newer = PAGES_NONE;
    if (pages->newest == PAGES_NONE)
        pages->oldest = model;
    else
        pages->entries[pages->newest].newer = model;
    pages->newest = model;
}

static void list_remove(struct pages *pages, uint32_t model) {
    struct pages_entry *entry = &pages->entries[model];
    if (entry->older == PAGES_NONE)
        pages->oldest = entry->newer;
    else
        pages->entries[entry->older].newer = entry->newer;
    if (entry->newer == PAGES_NONE)
        pages->newest = entry->older;
    else
        pages->entries[entry->newer].older = entry->older;
}

bool pages_take(struct pages *pages, uint32_t model, uint32_t count) {
    struct pages_entry *entry = &pages->entries[model];
    CHECK(count > 0 && entry->pages == 0);
    if (count > pages->free)
        return false;
    pages->free -= count;
    entry->pages = count;
    entry->holds = 1;
    return true;
}

void pages_give(struct pages *pages, uint32_t model) {
    struct pages_entry *entry = &pages->entries[model];
    CHECK(entry->pages > 0 && entry->holds == 0);
    list_remove(pages, model);
    pages->free += entry->pages;
    entry->pages = 0;
}

void pages_hold(struct pages *pages, uint32_t model) {
    struct pages_entry *entry = &pages->entries[model];
    CHECK(entry->pages > 0);
    if (entry->holds++ == 0)
        list_remove(pages, model);
}

void pages_release(struct pages *pages, uint32_t model) {
    struct pages_entry *entry = &pages->entries[model];
    CHECK(entry->holds > 0);
    if (--entry->holds == 0)
        list_append(pages, model);
}
