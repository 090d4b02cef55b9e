/* rollouts.c - the table of stated versions. */
#include "cluster/membership/rollouts.h"

#include <errno.h>
#include <jansson.h>
#include <string.h>

static struct rollout *find(struct rollouts *rollouts, const char *model) {
    for (uint32_t i = 0; i < rollouts->count; i++)
        if (strcmp(rollouts->of[i].model, model) == 0)
            return &rollouts->of[i];
    return NULL;
}

const struct rollout *rollouts_find(const struct rollouts *rollouts, const char *model) {
    return find((struct rollouts *)rollouts, model);
}

bool rollouts_later(const struct rollouts *a, const struct rollouts *b) {
    return a->term != b->term ? a->term > b->term : a->number > b->number;
}

/* ---- text ---- */

static json_t *number_json(uint64_t number) {
    return json_integer((json_int_t)number);
}

char *rollouts_write(const struct rollouts *rollouts) {
    json_t *root = json_object(), *list = json_array();
    for (uint32_t i = 0; i < rollouts->count; i++) {
        const struct rollout *r = &rollouts->of[i];
        json_t *one = json_object();
        json_object_set_new(one, "model", json_string(r->model));
        json_object_set_new(one, "version", number_json(r->version));
        json_object_set_new(one, "share", number_json(r->share));
        json_object_set_new(one, "before", number_json(r->before));
        json_array_append_new(list, one);
    }
    int rc = json_object_set_new(root, "term", number_json(rollouts->term));
    rc |= json_object_set_new(root, "number", number_json(rollouts->number));
    rc |= json_object_set_new(root, "rollouts", list);
    char *text = rc ? NULL : json_dumps(root, JSON_COMPACT);
    json_decref(root);
    return text;
}

/* Reads a number from `least` to `most`. */
static bool number_read(const json_t *object, const char *name, uint64_t least, uint64_t most, uint64_t *to) {
    const json_t *value = json_object_get(object, name);
    json_int_t number = json_integer_value(value);
    *to = number > 0 ? (uint64_t)number : 0;
    return json_is_integer(value) && number >= 0 && *to >= least && *to <= most;
}

static bool model_read(const json_t *object, char model[MODEL_NAME_MAX]) {
    const char *name = json_string_value(json_object_get(object, "model"));
    size_t length = name ? strlen(name) : 0;
    if (length < 1 || length >= MODEL_NAME_MAX)
        return false;
    memcpy(model, name, length + 1);
    return true;
}

static bool rollout_read(const json_t *object, struct rollout *rollout) {
    uint64_t version, share, before;
    if (!model_read(object, rollout->model) || !number_read(object, "version", 1, UINT32_MAX, &version) ||
        !number_read(object, "share", 1, ROLLOUT_SHARE_ALL, &share) ||
        !number_read(object, "before", 0, UINT32_MAX, &before))
        return false;
    rollout->version = (uint32_t)version;
    rollout->share = (uint32_t)share;
    rollout->before = (uint32_t)before;
    return true;
}

int rollouts_read(const char *text, size_t bytes, struct rollouts *rollouts, struct sy_error *err) {
    json_t *root = json_loadb(text, bytes, JSON_REJECT_DUPLICATES, NULL);
    const json_t *list = json_object_get(root, "rollouts");
    bool good = number_read(root, "term", 0, INT64_MAX, &rollouts->term) &&
                number_read(root, "number", 0, INT64_MAX, &rollouts->number) && json_is_array(list) &&
                json_array_size(list) <= ROLLOUTS_MAX;
    rollouts->count = 0;
    for (size_t i = 0; good && i < json_array_size(list); i++) {
        struct rollout *r = &rollouts->of[rollouts->count];
        good = rollout_read(json_array_get(list, i), r) && !find(rollouts, r->model);
        rollouts->count++;
    }
    json_decref(root);
    return good ? 0 : error_set(err, -EPROTO, "a table of rollouts, which is none");
}

static const char *const wishes[] = {[ROLLOUT_TO] = "to", [ROLLOUT_BACK] = "back", [ROLLOUT_NEWEST] = "newest"};

char *rollout_order_write(const struct rollout_order *order) {
    json_t *root = json_pack("{s:s, s:s}", "wish", wishes[order->wish], "model", order->model);
    json_object_set_new(root, "version", number_json(order->version));
    json_object_set_new(root, "share", number_json(order->share));
    char *text = root ? json_dumps(root, JSON_COMPACT) : NULL;
    json_decref(root);
    return text;
}

int rollout_order_read(const char *text, size_t bytes, struct rollout_order *order, struct sy_error *err) {
    json_t *root = json_loadb(text, bytes, JSON_REJECT_DUPLICATES, NULL);
    const char *wish = json_string_value(json_object_get(root, "wish"));
    uint64_t version = 0, share = 0;
    bool good = wish && model_read(root, order->model);
    uint32_t n = 0;
    while (good && n <= ROLLOUT_NEWEST && strcmp(wishes[n], wish) != 0)
        n++;
    good = good && n <= ROLLOUT_NEWEST;
    if (good && n == ROLLOUT_TO)
        good = number_read(root, "version", 1, UINT32_MAX, &version) &&
               number_read(root, "share", 1, ROLLOUT_SHARE_ALL, &share);
    order->wish = (enum rollout_wish)n;
    order->version = (uint32_t)version;
    order->share = (uint32_t)share;
    json_decref(root);
    return good ? 0 : error_set(err, -EPROTO, "an order for a rollout, which is none");
}

/* ---- decisions ---- */

int rollouts_order(struct rollouts *rollouts, const struct rollout_order *order, uint32_t carries, uint64_t term,
                   struct sy_error *err) {
    struct rollout *r = find(rollouts, order->model);
    if (order->wish != ROLLOUT_TO && !r)
        return error_set(err, -EINVAL, "no rollout of model '%s' is stated", order->model);
    if (order->wish == ROLLOUT_BACK && !r->before)
        return error_set(err, -EINVAL, "the rollout of version %u of model '%s' has no version before it to go back to",
                         r->version, order->model);
    if (order->wish == ROLLOUT_TO && !r && rollouts->count == ROLLOUTS_MAX)
        return error_set(err, -ENOSPC, "versions of %d models are stated already", ROLLOUTS_MAX);
    if (order->wish == ROLLOUT_NEWEST) {
        *r = rollouts->of[--rollouts->count];
    } else if (order->wish == ROLLOUT_BACK) {
        r->version = r->before;
        r->share = ROLLOUT_SHARE_ALL;
        r->before = 0; /* whoever goes back means it, however few backends have it */
    } else {
        /* what carries now: of a share, the version that gets the rest */
        uint32_t before = !r                                                             ? carries
                          : r->version == order->version || r->share < ROLLOUT_SHARE_ALL ? r->before
                                                                                         : r->version;
        r = r ? r : &rollouts->of[rollouts->count++];
        memcpy(r->model, order->model, sizeof(r->model));
        r->before = before == order->version ? 0 : before;
        r->version = order->version;
        r->share = order->share;
    }
    rollouts->number = term == rollouts->term ? rollouts->number + 1 : 1;
    rollouts->term = term;
    return 0;
}
