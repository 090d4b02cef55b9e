/* scenario_cluster.c - the section `cluster` of a scenario: accelerators by type, their prices, memory and faults. */
#include <math.h>
#include <string.h>

#include "core/data/residency.h"
#include "core/data/zoo.h"
#include "lab/scenario/scenario_sections.h"

#define PRICE_MAX      1e6
#define MEMORY_GIB_MAX 1e6
#define LINK_GB_S_MAX  1e6
#define EPOCH_S        5
#define PRICE_EXPECTED "dollars an hour for one accelerator"

struct type_entry {
    char type[64];
    int64_t count;
    double price;
};

struct cluster_section {
    const struct conf_node *accelerators, *faults, *scheduler_faults;
    struct type_entry one; /* type and price, in a cluster of one type */
    double memory_gib, link_gb_s, noise;
    int64_t subclusters;
    double epoch_s, max_rate_rps;
};

static const struct conf_key cluster_keys[] = {
    CONF_KEY_NODE(struct cluster_section, accelerators, "accelerators"),
    CONF_KEY_TEXT(struct cluster_section, one.type, "type", "the name of an accelerator type"),
    CONF_KEY_DOUBLE(struct cluster_section, one.price, "price", 0, PRICE_MAX, PRICE_EXPECTED),
    CONF_KEY_DOUBLE(struct cluster_section, memory_gib, "memory_gib", 0.001, MEMORY_GIB_MAX,
                    "an accelerator's memory for weights, in GiB"),
    CONF_KEY_DOUBLE(struct cluster_section, link_gb_s, "link_gb_s", 0.001, LINK_GB_S_MAX,
                    "10^9 bytes a second at which weights come to an accelerator"),
    CONF_KEY_DOUBLE(struct cluster_section, noise, "noise", 0, 1, "a share of l(b)"),
    CONF_KEY_NODE(struct cluster_section, faults, "faults"),
    CONF_KEY_NODE(struct cluster_section, scheduler_faults, "scheduler_faults"),
    CONF_KEY_INT(struct cluster_section, subclusters, "subclusters", 1, SUBCLUSTERS_MAX, "a number of sub-clusters"),
    CONF_KEY_DOUBLE(struct cluster_section, epoch_s, "epoch_s", 0, SECONDS_MAX, "a number of seconds; 0: never"),
    CONF_KEY_DOUBLE(struct cluster_section, max_rate_rps, "max_rate_rps", 0, 1e12,
                    "requests a second of a sub-cluster; 0: any"),
    CONF_KEYS_END,
};

static const struct conf_key type_keys[] = {
    CONF_KEY_TEXT(struct type_entry, type, "type", "the name of an accelerator type"),
    CONF_KEY_INT(struct type_entry, count, "count", 1, ACCELERATORS_MAX, "a number of accelerators"),
    CONF_KEY_DOUBLE(struct type_entry, price, "price", 0, PRICE_MAX, PRICE_EXPECTED),
    CONF_KEYS_END,
};

static int fault_kind_parse(const struct conf_node *node, void *into, struct sy_error *err) {
    struct scenario *s = into;
    static const struct {
        const char *name;
        double stalls;
        bool again, silent;
    } kinds[] = {
        {"die", 0, false, false}, {"stall", 1, false, false}, {"both", 0.5, false, false},
        {"kill", 0, true, false}, {"silent", 0, true, true},
    };
    for (size_t i = 0; node->kind == CONF_SCALAR && i < sizeof(kinds) / sizeof(kinds[0]); i++)
        if (strcmp(node->text, kinds[i].name) == 0) {
            s->fault_stalls = kinds[i].stalls;
            s->fault_again = kinds[i].again;
            s->fault_silent = kinds[i].silent;
            return 0;
        }
    return conf_error(node, err, "expected die, stall, both, kill or silent");
}

static const struct conf_key fault_keys[] = {
    CONF_KEY_DOUBLE(struct scenario, fault_every_s, "every_s", 0.001, SECONDS_MAX, "a mean number of seconds"),
    CONF_KEY_DOUBLE(struct scenario, fault_s, "for_s", 0.001, SECONDS_MAX, "a mean number of seconds"),
    CONF_KEY_PARSED("kind", fault_kind_parse),
    CONF_KEY_INT(struct scenario, fault_backends, "backends", 1, ACCELERATORS_MAX, "a number of backends"),
    CONF_KEY_TIME(struct scenario, fault_noticed_ns, "noticed_ms", NS_PER_MS, 0, 6e7, "a number of milliseconds"),
    CONF_KEYS_END,
};

static const struct conf_key scheduler_fault_keys[] = {
    CONF_KEY_DOUBLE(struct scenario, scheduler_every_s, "every_s", 0.001, SECONDS_MAX, "a mean number of seconds"),
    CONF_KEY_DOUBLE(struct scenario, scheduler_down_s, "for_s", 0.001, SECONDS_MAX, "a mean number of seconds"),
    CONF_KEYS_END,
};

/* A price that is not given (negative) is the published one. */
static void type_add(struct scenario *s, const struct type_entry *entry) {
    struct scenario_type *type = &s->types[s->type_count++];
    memcpy(type->name, entry->type, sizeof(type->name));
    type->count = (uint32_t)entry->count;
    type->price = entry->price < 0 ? zoo_price(entry->type) : entry->price;
    s->accelerator_count += type->count;
}

static int types_read(const struct conf_node *list, struct scenario *s, struct sy_error *err) {
    if (!list->count || list->count > ACCELERATOR_TYPES_MAX)
        return conf_error(list, err, "expected 1 to %d accelerator types", ACCELERATOR_TYPES_MAX);
    for (const struct conf_node *item = list->first; item; item = item->next) {
        struct type_entry entry = {.price = -1};
        int rc = conf_read_map(item, type_keys, &entry, err);
        if (rc)
            return rc;
        if (!entry.type[0] || !entry.count)
            return conf_error(item, err, "'%s' is missing", entry.type[0] ? "count" : "type");
        for (uint32_t i = 0; i < s->type_count; i++)
            if (strcmp(s->types[i].name, entry.type) == 0)
                return conf_error(item, err, "the type '%s' is listed twice", entry.type);
        type_add(s, &entry);
    }
    return 0;
}

static int accelerators_read(const struct conf_node *node, const struct conf_node *models,
                             struct cluster_section *section, struct scenario *s, struct sy_error *err) {
    if (section->accelerators->kind == CONF_LIST) {
        if (section->one.type[0] || section->one.price >= 0)
            return conf_error(node, err, "'%s' goes with a number of accelerators, not with a list of types",
                              section->one.type[0] ? "type" : "price");
        return types_read(section->accelerators, s, err);
    }
    int rc = conf_get_int(section->accelerators, 1, ACCELERATORS_MAX,
                          "a number of accelerators or a list of {type, count}", &section->one.count, err);
    if (rc)
        return rc;
    if (!section->one.type[0]) { /* without a type: that of the zoo that the models come from */
        const struct conf_node *named = models ? conf_find(models, "zoo") : NULL;
        const struct zoo *zoo = named && named->kind == CONF_SCALAR ? zoo_named(named->text) : NULL;
        snprintf(section->one.type, sizeof(section->one.type), "%s", zoo ? zoo->type : "emulated");
    }
    type_add(s, &section->one);
    return 0;
}

int scenario_read_cluster(const struct conf_node *node, const struct conf_node *models, struct scenario *s,
                          struct sy_error *err) {
    struct cluster_section section = {
        .one.price = -1, .subclusters = 1, .epoch_s = EPOCH_S, .link_gb_s = LINK_BYTES_PER_S / 1e9};
    int rc = conf_read_map(node, cluster_keys, &section, err);
    if (rc)
        return rc;
    if (!section.accelerators)
        return conf_error(node, err, "'accelerators' is missing");
    s->memory_bytes = (uint64_t)llround(section.memory_gib * (1 << 30));
    s->link_bytes_s = section.link_gb_s * 1e9;
    s->noise = section.noise;
    s->subclusters = (uint32_t)section.subclusters;
    s->epoch_s = section.epoch_s;
    s->max_rate_rps = section.max_rate_rps;
    if (section.faults) {
        rc = conf_read_map(section.faults, fault_keys, s, err);
        if (!rc && (s->fault_every_s <= 0 || s->fault_s <= 0))
            rc = conf_error(section.faults, err, "'%s' is missing", s->fault_every_s <= 0 ? "every_s" : "for_s");
    }
    if (!rc && section.scheduler_faults) {
        rc = conf_read_map(section.scheduler_faults, scheduler_fault_keys, s, err);
        if (!rc && (s->scheduler_every_s <= 0 || s->scheduler_down_s <= 0))
            rc = conf_error(section.scheduler_faults, err, "'%s' is missing",
                            s->scheduler_every_s <= 0 ? "every_s" : "for_s");
    }
    rc = rc ? rc : accelerators_read(node, models, &section, s, err);
    if (!rc && s->fault_backends > s->accelerator_count)
        rc = conf_error(section.faults, err, "%lld backends for %u accelerators", (long long)s->fault_backends,
                        s->accelerator_count);
    for (uint32_t t = 0; !rc && t < s->type_count; t++)
        if (s->types[t].count < s->subclusters)
            rc = conf_error(conf_find(node, "subclusters"), err, "%u for %u accelerators of type %s", s->subclusters,
                            s->types[t].count, s->types[t].name);
    return rc;
}
