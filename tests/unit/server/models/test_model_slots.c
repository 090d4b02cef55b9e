/* test_model_slots.c - places from free to serving and back, in a real server whose own repository thread has ended. */
/* Starts threads. */
#include "unit/test.h"

#include "server/models/model_slots.h"

#include <errno.h>

#include "front/request/infer_counters.h"
#include "model/repository/repository.h"
#include "server/models/repository_control.h"
#include "unit/server/models/control_rig.h"

#ifdef SYMPHONY_HAVE_ONNXRUNTIME

#define PLACES (RIG_MODELS + CONTROL_SPARE)

static _Atomic bool stop;

static void slots_begin(struct control_rig *rig, struct model_slots *slots) {
    repository_thread_quit(rig->server->repository); /* it would take the answers */
    while (!repository_thread_ended(rig->server->repository))
        rig_wait();
    rig_put(rig, "mlp", 1, "mlp.onnx");
    rig_put(rig, "image", 1, "image.onnx");
    rig->control.how[0].stop = &stop;
    *slots = (struct model_slots){.control = &rig->control,
                                  .list = &rig->server->models,
                                  .executors = &rig->server->executors,
                                  .scheduling = &rig->server->scheduling};
    assert_int_equal(model_slots_init(slots), 0);
}

static enum life_state state_of(const struct model_slots *slots, int slot) {
    return model_life_state(slots->life, (uint32_t)slot);
}

static void look(struct model_slots *slots) {
    while (model_slots_look(slots)) {
    }
}

/* Until all places are free that are to be. */
static void settle(struct model_slots *slots) {
    for (look(slots); !list_empty(&slots->life->moving); look(slots))
        rig_wait();
}

/* Loads a model of the repository; its place, or -errno. */
static int load(struct control_rig *rig, struct model_slots *slots, const char *name, struct sy_error *err) {
    struct served_model *found;
    uint32_t count, slot;
    assert_int_equal(repository_find(&rig->control.from, name, &found, &count, err), 0);
    int rc = model_slot_load(slots, found, &slot, err);
    served_models_free(found, count);
    return rc ? rc : (int)slot;
}

TEST_WITH(a_place_goes_round, rig_set_up, rig_tear_down) {
    struct control_rig *rig = *state;
    struct model_slots slots;
    struct sy_error err = {""};
    slots_begin(rig, &slots);
    int slot = load(rig, &slots, "mlp", &err);
    assert_int_equal(slot, 0);
    assert_int_equal(state_of(&slots, slot), LIFE_PREPARING);
    assert_int_equal(rig_place_of(rig, "mlp", NULL), -1);
    model_slot_enter(&slots, (uint32_t)slot);
    assert_int_equal(slots.life->serving, 1);
    assert_int_equal(rig_place_of(rig, "mlp", NULL), -1); /* it could be served, but nobody knows */
    assert_int_equal(model_slots_publish(&slots, NULL, 0), 0);
    assert_int_equal(rig_place_of(rig, "mlp", NULL), slot);

    model_slot_retire(&slots, (uint32_t)slot);
    assert_int_equal(rig_place_of(rig, "mlp", NULL), slot);
    look(&slots);
    assert_int_equal(state_of(&slots, slot), LIFE_LEAVING); /* somebody may still find it */
    assert_true(slots.stale);
    struct model_absent *absent = calloc(1, sizeof(*absent));
    *absent = (struct model_absent){.name = "mlp", .state = MODEL_UNLOADING};
    assert_int_equal(model_slots_publish(&slots, absent, 1), 0);
    assert_int_equal(rig_place_of(rig, "mlp", NULL), -1);
    assert_int_equal(state_of(&slots, slot), LIFE_LEAVING);
    assert_false(slots.stale);
    settle(&slots);
    assert_int_equal(state_of(&slots, slot), LIFE_FREE);
    assert_int_equal(slots.told[slot].variant_count, 0);
    model_slots_free(&slots);
}

/* Its last request is still answered. */
TEST_WITH(a_place_that_is_held_stays, rig_set_up, rig_tear_down) {
    struct control_rig *rig = *state;
    struct model_slots slots;
    struct sy_error err = {""};
    slots_begin(rig, &slots);
    int slot = load(rig, &slots, "mlp", &err);
    model_slot_enter(&slots, (uint32_t)slot);
    assert_int_equal(model_slots_publish(&slots, NULL, 0), 0);
    _Atomic uint32_t *held = (_Atomic uint32_t *)&frontends_counters(&rig->server->frontends, 0)->models[slot].held;
    atomic_store(held, 1); /* as its frontend does, which sleeps */
    model_slot_retire(&slots, (uint32_t)slot);
    assert_int_equal(model_slots_publish(&slots, NULL, 0), 0);
    look(&slots);
    assert_int_equal(state_of(&slots, slot), LIFE_LEAVING);
    assert_true(model_slots_wake(&slots) < TIME_NEVER);
    assert_int_equal(load(rig, &slots, "image", &err), slot + 1); /* not into that place */
    model_slot_discard(&slots, (uint32_t)slot + 1);
    atomic_store(held, 0);
    settle(&slots);
    assert_int_equal(state_of(&slots, slot), LIFE_FREE);
    assert_true(model_slots_wake(&slots) == TIME_NEVER);
    model_slots_free(&slots);
}

/* At the start, of many models, those that serve are not published one by one. */
TEST_WITH(an_ensemble_finds_what_is_not_published_yet, rig_set_up, rig_tear_down) {
    struct control_rig *rig = *state;
    struct model_slots slots;
    struct sy_error err = {""};
    char path[128];
    slots_begin(rig, &slots);
    rig_put(rig, "whole", 1, "mlp.onnx");
    snprintf(path, sizeof(path), "%s/whole/1/model.onnx", rig->folder);
    assert_int_equal(unlink(path), 0);
    snprintf(path, sizeof(path), "%s/whole/config.pbtxt", rig->folder);
    FILE *config = fopen(path, "w");
    fputs("platform: 'ensemble' max_batch_size: 2\n"
          "input { name: 'in' data_type: TYPE_FP32 dims: 32 }\n"
          "output { name: 'out' data_type: TYPE_FP32 dims: 8 }\n"
          "ensemble_scheduling { step { model_name: 'mlp' input_map { key: 'x' value: 'in' }"
          " output_map { key: 'y' value: 'out' } } }\n",
          config);
    fclose(config);
    assert_int_equal(load(rig, &slots, "whole", &err), -EINVAL);
    assert_non_null(strstr(err.text, "there is no such model"));
    int slot = load(rig, &slots, "mlp", &err);
    model_slot_enter(&slots, (uint32_t)slot);
    if (load(rig, &slots, "whole", &err) < 0)
        fail_msg("%s", err.text);
    model_slots_free(&slots);
}

TEST_WITH(places_end_and_come_back, rig_set_up, rig_tear_down) {
    struct control_rig *rig = *state;
    struct model_slots slots;
    struct sy_error err = {""};
    slots_begin(rig, &slots);
    for (int i = 0; i < PLACES; i++)
        assert_int_equal(load(rig, &slots, "mlp", &err), i);
    assert_int_equal(load(rig, &slots, "mlp", &err), -EBUSY);
    assert_string_equal(err.text, "the last requests of too many other models are still being answered");
    model_slot_discard(&slots, 3);
    assert_int_equal(load(rig, &slots, "image", &err), 3);
    for (uint32_t i = 0; i < PLACES; i++)
        model_slot_discard(&slots, i);
    for (uint32_t v = 0; v < rig->server->wiring.models; v++)
        assert_false(slots.variant_taken[v]);
    model_slots_free(&slots);
}

TEST_WITH(what_fails_leaves_its_place, rig_set_up, rig_tear_down) {
    struct control_rig *rig = *state;
    struct model_slots slots;
    struct sy_error err = {""};
    slots_begin(rig, &slots);
    rig_put(rig, "bad", 1, "lower.onnx");
    char command[128];
    snprintf(command, sizeof(command), "echo nonsense > %s/bad/1/model.onnx", rig->folder);
    assert_int_equal(system(command), 0);
    assert_true(load(rig, &slots, "bad", &err) < 0);
    assert_string_not_equal(err.text, "");
    assert_int_equal(state_of(&slots, 0), LIFE_FREE);
    atomic_store(&stop, true);
    assert_int_equal(load(rig, &slots, "mlp", &err), -EINTR);
    atomic_store(&stop, false);
    assert_int_equal(load(rig, &slots, "mlp", &err), 0);
    model_slot_discard(&slots, 0);
    model_slots_free(&slots);
}

#endif

int main(int argc, char **argv) {
    if (control_rig_child(argc, argv))
        return worker_main();
    return tests_run(NULL, NULL);
}
