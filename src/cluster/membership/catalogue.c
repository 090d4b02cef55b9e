/* catalogue.c - the models of the cluster, and the classes of accelerators that run them. */
#include "cluster/membership/catalogue.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/util/container.h"
#include "model/config/model_name.h"

/* ---- models ---- */

static void model_free(struct served_model *model) {
    if (model)
        model_description_release(model, NULL, 0);
    free(model);
}

static uint32_t name_hash(const char *name) {
    return model_name_hash(name, strlen(name));
}

static bool is_same(const struct known_model *known, const struct served_model *model) {
    return known->model && known->model->version == model->version && strcmp(known->model->name, model->name) == 0;
}

/* The model of that name, version and hash; else another one of that name and version that some backend has. */
static uint32_t known_find(const struct catalogue *c, const struct served_model *model, uint64_t hash) {
    uint32_t found = CATALOGUE_NONE, name = name_hash(model->name);
    for (uint32_t i = 0; i < c->known_count; i++) {
        if (c->names[i] != name || !is_same(&c->known[i], model))
            continue;
        if (c->known[i].hash != hash && c->known[i].backends > 0)
            return i;
        if (c->known[i].hash == hash)
            found = i;
    }
    return found;
}

uint32_t catalogue_successor(const struct catalogue *c, uint32_t known) {
    uint32_t name = c->names[known];
    for (uint32_t i = 0; i < c->known_count; i++)
        if (c->names[i] == name && i != known && c->known[i].backends > 0 &&
            is_same(&c->known[i], c->known[known].model))
            return i;
    for (uint32_t i = 0; i < c->known_count; i++) {
        const struct known_model *other = &c->known[i];
        if (c->names[i] == name && i != known && other->backends > 0 && other->place == CATALOGUE_NONE &&
            !other->told && strcmp(other->model->name, c->known[known].model->name) == 0)
            return i;
    }
    return CATALOGUE_NONE;
}

static uint32_t known_place(struct catalogue *c) {
    for (uint32_t i = 0; i < c->known_count; i++)
        if (!c->known[i].model)
            return i;
    return c->known_count < CATALOGUE_MODELS_MAX ? c->known_count++ : CATALOGUE_NONE;
}

static void profiles_free(struct described_profile *profiles, uint32_t *count) {
    for (uint32_t i = 0; i < *count; i++)
        free(profiles[i].profile);
    *count = 0;
}

void catalogue_brought_free(struct brought_model *brought) {
    if (!brought->shared)
        profiles_free(brought->profiles, &brought->profile_count);
    brought->profile_count = 0;
}

/* Most backends bring models that others have brought before. Reading a description takes some 100 us, comparing it
 * less than one. A model that no backend has any more is read as if it were new. */
static bool bring_again(struct catalogue *c, const char *description, size_t bytes, struct brought_model *brought) {
    for (uint32_t i = 0; i < c->known_count; i++) {
        struct known_model *known = &c->known[i];
        if (known->backends == 0 || known->description_bytes != bytes ||
            memcmp(known->description, description, bytes) != 0)
            continue; /* if no backend has it any more, another one of its name may have come */
        known->backends++;
        known->unloaded = false; /* its weights are as large as those of the backend that was the first */
        brought->known = i;
        memcpy(brought->profiles, known->profiles_brought, sizeof(brought->profiles));
        brought->profile_count = known->profiles_brought_count;
        brought->shared = true;
        return true;
    }
    return false;
}

int catalogue_bring(struct catalogue *c, const char *description, size_t bytes, struct brought_model *brought,
                    struct sy_error *err) {
    brought->profile_count = 0;
    brought->shared = brought->ends = false;
    if (bring_again(c, description, bytes, brought))
        return 0;
    struct served_model *model = calloc(1, sizeof(*model));
    char *text = malloc(bytes + 1);
    int rc = -ENOMEM;

    if (!model || !text) {
        error_set(err, rc, "no memory for a model's description");
        goto err_free;
    }
    brought->profile_count = ACCELERATOR_TYPES_MAX;
    rc = model_description_read(description, bytes, model, brought->profiles, &brought->profile_count, err);
    if (rc < 0) {
        brought->profile_count = 0;
        goto err_free;
    }
    for (uint32_t p = 0; p < brought->profile_count; p++) {
        struct profile *profile = brought->profiles[p].profile;
        if (profile->batch_max <= model->batch_max)
            continue;
        profile->batch_max = model->batch_max; /* it has larger batches than its backend serves */
        profile_fit(profile);
    }
    uint64_t hash = model_description_hash(model), weights_bytes = model->weights_bytes;
    if (hash == 0) {
        rc = error_set(err, -ENOMEM, "no memory for the description of model '%s'", model->name);
        goto err_free;
    }
    uint32_t i = known_find(c, model, hash);
    if (i != CATALOGUE_NONE && c->known[i].hash != hash) {
        char difference[300];
        model_description_difference(c->known[i].model, model, difference, sizeof(difference));
        rc = error_set(err, -EEXIST, "model '%s' version %u is another one on other backends: %s", model->name,
                       model->version, difference);
        goto err_free;
    }
    if (i == CATALOGUE_NONE && (i = known_place(c)) == CATALOGUE_NONE) {
        rc = error_set(err, -ENOSPC, "there are %d models in the cluster already", CATALOGUE_MODELS_MAX);
        goto err_free;
    }
    struct known_model *known = &c->known[i];
    if (!known->model) {
        memcpy(text, description, bytes);
        text[bytes] = '\0';
        *known = (struct known_model){.model = model,
                                      .hash = hash,
                                      .description = text,
                                      .description_bytes = (uint32_t)bytes,
                                      .profiles_brought_count = brought->profile_count,
                                      .place = CATALOGUE_NONE};
        c->names[i] = name_hash(model->name);
        memcpy(known->profiles_brought, brought->profiles, sizeof(brought->profiles));
        brought->shared = true;
        model = NULL;
        text = NULL;
    }
    if (model && model->slo_chosen && model->slo_ns > known->model->slo_ns)
        known->model->slo_ns =
            model->slo_ns; /* so each backend can meet it, and it does not depend on who came first */
    known->backends++;
    known->unloaded = false;
    known->weights_bytes = weights_bytes > known->weights_bytes ? weights_bytes : known->weights_bytes;
    brought->known = i;
    rc = 0;

err_free:
    if (rc < 0)
        profiles_free(brought->profiles, &brought->profile_count);
    model_free(model);
    free(text);
    return rc;
}

void catalogue_take(struct catalogue *c, struct brought_model *brought) {
    c->known[brought->known].backends--;
    c->known[brought->known].ending++;
    brought->ends = true;
    catalogue_brought_free(brought);
}

void catalogue_put_down(struct catalogue *c, const struct brought_model *brought) {
    c->known[brought->known].ending--;
}

/* The lowest version of a name that is served, above `version`; CATALOGUE_NONE: there is none. */
static uint32_t version_next(const struct catalogue *c, const char *name, uint32_t version) {
    uint32_t next = CATALOGUE_NONE, hash = name_hash(name);
    for (uint32_t i = 0; i < c->known_count; i++) {
        const struct known_model *known = &c->known[i];
        if (c->names[i] == hash && known->model && known->place != CATALOGUE_NONE && known->model->version > version &&
            strcmp(known->model->name, name) == 0 &&
            (next == CATALOGUE_NONE || known->model->version < c->known[next].model->version))
            next = i;
    }
    return next;
}

uint32_t catalogue_served(const struct catalogue *c, const char *model, uint32_t version) {
    uint32_t i = version ? version_next(c, model, version - 1) : CATALOGUE_NONE;
    return i != CATALOGUE_NONE && c->known[i].model->version == version ? i : CATALOGUE_NONE;
}

bool catalogue_rolls(const struct catalogue *c, const struct rollout *r) {
    uint32_t to = catalogue_served(c, r->model, r->version), before = catalogue_served(c, r->model, r->before);
    uint64_t others = before == CATALOGUE_NONE ? 0 : c->known[before].backends;
    return to != CATALOGUE_NONE && c->known[to].backends > 0 &&
           (uint64_t)c->known[to].backends * ROLLOUT_SHARE_ALL >= others * r->share;
}

uint32_t catalogue_carries(const struct catalogue *c, const char *model) {
    uint32_t found = 0;
    for (uint32_t i = version_next(c, model, 0); i != CATALOGUE_NONE;
         i = version_next(c, model, c->known[i].model->version))
        found = c->known[i].begins ? found : c->known[i].model->version;
    return found;
}

void catalogue_versions(struct catalogue *c, uint32_t known) {
    const char *name = c->known[known].model->name;
    uint32_t carries = version_next(c, name, 0);
    for (uint32_t i = carries; i != CATALOGUE_NONE; i = version_next(c, name, c->known[i].model->version)) {
        c->known[i].begins = c->known[i].backends < c->known[carries].backends;
        c->known[i].share = 0;
        carries = c->known[i].begins ? carries : i;
    }
    const struct rollout *r = rollouts_find(&c->rollouts, name);
    if (!r)
        return;
    uint32_t to = catalogue_served(c, name, r->version), before = catalogue_served(c, name, r->before);
    bool rolls = catalogue_rolls(c, r);
    if (rolls && r->share == ROLLOUT_SHARE_ALL)
        carries = to;
    else if (before != CATALOGUE_NONE)
        carries = before;
    for (uint32_t i = version_next(c, name, 0); i != CATALOGUE_NONE;
         i = version_next(c, name, c->known[i].model->version))
        c->known[i].begins = i != carries;
    if (rolls && carries != to) {
        c->known[to].share = r->share;
        c->known[carries].share = ROLLOUT_SHARE_ALL - r->share;
    }
}

bool catalogue_forget(struct catalogue *c, uint32_t i) {
    struct known_model *known = &c->known[i];
    if (!known->model || known->backends > 0 || known->ending > 0 || known->place != CATALOGUE_NONE || known->told)
        return false;
    for (uint32_t k = 0; k < catalogue_classes(c); k++) {
        free(known->profiles[k]);
        c->classes[k].models[i / 64] &= ~(1ULL << i % 64);
    }
    profiles_free(known->profiles_brought, &known->profiles_brought_count);
    model_free(known->model);
    free(known->description);
    *known = (struct known_model){.model = NULL};
    return true;
}

/* ---- classes ---- */

static struct profile *profile_of(const struct brought_model *brought, const char *type) {
    for (uint32_t i = 0; i < brought->profile_count; i++)
        if (strcmp(brought->profiles[i].type, type) == 0)
            return brought->profiles[i].profile;
    return NULL;
}

/* The models of a backend that accelerators of a type run, a bit each. */
static void models_set(uint64_t *models, const char *type, const struct brought_model *brought, uint32_t count) {
    memset(models, 0, CATALOGUE_MODELS_MAX / 8);
    for (uint32_t i = 0; i < count; i++)
        if (!brought[i].ends && profile_of(&brought[i], type))
            models[brought[i].known / 64] |= 1ULL << brought[i].known % 64;
}

bool catalogue_alike(const char *type, const struct brought_model *a, uint32_t a_count, const struct brought_model *b,
                     uint32_t b_count) {
    uint64_t of_a[CATALOGUE_MODELS_MAX / 64], of_b[CATALOGUE_MODELS_MAX / 64];
    models_set(of_a, type, a, a_count);
    models_set(of_b, type, b, b_count);
    return memcmp(of_a, of_b, sizeof(of_a)) == 0;
}

/* All runs of a profile take so many times as long. */
static void profile_stretch(struct profile *profile, double factor) {
    for (uint32_t b = 1; b <= profile->batch_max + 1 && factor != 1; b++)
        profile->latency_ns[b] = (int64_t)((double)profile->latency_ns[b] * factor);
    if (factor != 1)
        profile_fit(profile);
}

/* Adds models to a class, which takes the profiles of this backend. */
static void class_add(struct catalogue *c, uint32_t k, const struct brought_model *brought, uint32_t count) {
    struct accelerator_class *class = &c->classes[k];
    for (uint32_t i = 0; i < count; i++) {
        struct known_model *known = &c->known[brought[i].known];
        const struct profile *profile = brought[i].ends ? NULL : profile_of(&brought[i], class->type);
        if (profile && !known->profiles[k] && (known->profiles[k] = malloc(profile_bytes(profile->batch_max)))) {
            memcpy(known->profiles[k], profile, profile_bytes(profile->batch_max));
            profile_stretch(known->profiles[k], class->factor);
        }
        if (profile && known->profiles[k])
            class->models[brought[i].known / 64] |= 1ULL << brought[i].known % 64;
    }
}

static void class_begin(struct catalogue *c, uint32_t k, const char *type, double factor,
                        const struct brought_model *brought, uint32_t count) {
    struct accelerator_class *class = &c->classes[k];
    memset(class, 0, sizeof(*class));
    strcpy(class->type, type);
    class->factor = factor;
    for (uint32_t i = 0; i < c->known_count; i++) {
        free(c->known[i].profiles[k]);
        c->known[i].profiles[k] = NULL;
    }
    class_add(c, k, brought, count);
}

/* Whether a backend's accelerators run batches as large as those of a class. */
static bool is_able(const struct catalogue *c, uint32_t k, const struct brought_model *brought, uint32_t count) {
    for (uint32_t i = 0; i < count; i++) {
        const struct profile *profile = brought[i].ends ? NULL : profile_of(&brought[i], c->classes[k].type);
        const struct profile *of_class = profile ? c->known[brought[i].known].profiles[k] : NULL;
        if (of_class && profile->batch_max < of_class->batch_max)
            return false;
    }
    return true;
}

bool catalogue_class_fits(const struct catalogue *c, uint32_t k, const struct brought_model *brought, uint32_t count) {
    if (c->by_type)
        return is_able(c, k, brought, count);
    uint64_t models[CATALOGUE_MODELS_MAX / 64];
    models_set(models, c->classes[k].type, brought, count);
    return memcmp(c->classes[k].models, models, sizeof(models)) == 0 && is_able(c, k, brought, count);
}

uint32_t catalogue_class(struct catalogue *c, const char *type, double factor, const struct brought_model *brought,
                         uint32_t count, uint64_t used, uint64_t closed) {
    uint32_t free_class = CATALOGUE_NONE;
    for (uint32_t k = 0; k < catalogue_classes(c); k++) {
        struct accelerator_class *class = &c->classes[k];
        if (*class->type && strcmp(class->type, type) == 0 && class->factor == factor && !(closed >> k & 1) &&
            catalogue_class_fits(c, k, brought, count)) {
            class->backends++;
            if (c->by_type)
                class_add(c, k, brought, count);
            return k;
        }
        if (class->backends == 0 && !(used >> k & 1) && free_class == CATALOGUE_NONE)
            free_class = k;
    }
    if (free_class != CATALOGUE_NONE) {
        class_begin(c, free_class, type, factor, brought, count);
        c->classes[free_class].backends = 1;
    }
    return free_class;
}

bool catalogue_class_change(struct catalogue *c, uint32_t k, const struct brought_model *brought, uint32_t count) {
    struct accelerator_class *class = &c->classes[k];
    uint64_t models[CATALOGUE_MODELS_MAX / 64];
    models_set(models, class->type, brought, count);
    for (uint32_t i = 0; i < c->known_count; i++)
        if ((class->models[i / 64] & ~models[i / 64]) >> i % 64 & 1 && c->known[i].backends > 0)
            return false;
    if (!is_able(c, k, brought, count))
        return false;
    for (uint32_t w = 0; w < ARRAY_COUNT(models); w++)
        class->models[w] &= models[w];
    class_add(c, k, brought, count);
    return true;
}

void catalogue_class_grow(struct catalogue *c, uint32_t k, const struct brought_model *brought, uint32_t count) {
    if (c->by_type)
        class_add(c, k, brought, count);
}

void catalogue_class_leave(struct catalogue *c, uint32_t class) {
    c->classes[class].backends--;
}

uint64_t catalogue_runs_on(const struct catalogue *c, uint32_t known) {
    uint64_t mask = 0;
    for (uint32_t k = 0; k < catalogue_classes(c); k++)
        if (c->classes[k].backends > 0 && c->classes[k].models[known / 64] >> known % 64 & 1)
            mask |= 1ULL << k;
    return mask;
}

void catalogue_free(struct catalogue *c) {
    for (uint32_t i = 0; i < c->known_count; i++) {
        c->known[i].backends = c->known[i].ending = 0;
        c->known[i].place = CATALOGUE_NONE;
        c->known[i].told = false;
        catalogue_forget(c, i);
    }
}
