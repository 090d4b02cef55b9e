/* test_scheduler_places.c - what a frontend that joins is told of models. */
#include <stdlib.h>
#include <string.h>

#include "cluster/roles/scheduler_link_state.h"
#include "heard.h"
#include "unit/test.h"

#define MODELS 3

static char description[] = "{}";

/* Frontends are told of a model's successor before its place goes. One that joins in between must not hear of the
 * predecessor last, which it would take for a replacement. */
TEST(of_a_model_and_its_successor_only_the_latter_is_told) {
    struct served_model *models = calloc(MODELS, sizeof(*models));
    struct scheduler_link *l = calloc(1, sizeof(*l));
    struct wiring wiring = {.models = MODELS, .accelerators = 1};
    struct member frontend = {.told = true};
    struct frame frame;
    struct heard heard;
    assert_true(models && l);
    l->wiring = &wiring;
    l->config.models_max = MODELS;
    list_init(&l->members);
    list_init(&l->free_plans);
    assert_int_equal(places_init(l), 0);
    heard_begin(&heard, &frontend.peer);
    /* 0 takes over from 1, whose name and version it has; 2 is another model, which no backend has any more */
    static const char *const names[MODELS] = {"a", "a", "b"};
    for (uint32_t i = 0; i < MODELS; i++) {
        strcpy(models[i].name, names[i]);
        models[i].version = 1;
        l->catalogue->known[i] = (struct known_model){
            .model = &models[i], .description = description, .description_bytes = 2, .backends = i == 0, .place = i};
        l->places[i] = (struct served_place){.known = i};
    }
    l->catalogue->known_count = MODELS;
    for (uint32_t round = 0; round < 2; round++) {
        places_tell(l, &frontend);
        for (uint32_t i = 0; i < MODELS; i++) {
            if (i == 1 - round)
                continue; /* first the predecessor, then the successor, which has no place yet */
            const uint32_t *place = heard_next(&heard, FRAME_SERVE, &frame);
            assert_non_null(place);
            assert_int_equal(*place, i);
        }
        assert_null(heard_next(&heard, FRAME_SERVE, &frame));
        l->catalogue->known[0].place = CATALOGUE_NONE;
    }
    heard_end(&heard);
    memset(l->catalogue->known, 0, sizeof(l->catalogue->known));
    places_free(l);
    free(l);
    free(models);
}
