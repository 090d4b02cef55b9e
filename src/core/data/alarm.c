/* alarm.c - judges the share of bad requests. */
#include "core/data/alarm.h"

/* Late requests are told from those in time, which are counted a moment apart: they may be one fewer than before. */
static uint64_t more(uint64_t now, uint64_t before) {
    return now > before ? now - before : 0;
}

static struct alarm_counts since(const struct alarm_counts *now, const struct alarm_counts *before) {
    return (struct alarm_counts){
        .requests = more(now->requests, before->requests),
        .refused = more(now->refused, before->refused),
        .failed = more(now->failed, before->failed),
        .late = more(now->late, before->late),
    };
}

static uint64_t bad_of(const struct alarm_counts *counts) {
    return counts->refused + counts->failed + counts->late;
}

enum alarm_news alarm_look(struct alarm *a, int64_t now_ns, const struct alarm_counts *counts) {
    if (a->looks > 0 && counts->requests < a->at[(a->looks - 1) % (ALARM_LOOKS + 1)].requests)
        *a = (struct alarm){.looks = 0}; /* the model was unloaded and loaded: its requests are counted anew */
    const struct alarm_counts *first = &a->at[a->looks > ALARM_LOOKS ? (a->looks + 1) % (ALARM_LOOKS + 1) : 0];
    a->at[a->looks++ % (ALARM_LOOKS + 1)] = *counts;
    struct alarm_counts judged = since(counts, first);
    uint64_t bad = bad_of(&judged);
    bool many = bad > 1 && (double)bad > ALARM_SHARE * (double)judged.requests;
    enum alarm_news news = ALARM_NONE;
    a->calm = many ? 0 : (uint8_t)(a->calm + (a->calm < ALARM_CALM_LOOKS));
    if (!a->on && many) {
        news = ALARM_BEGINS;
        a->on = true;
        a->since_ns = now_ns;
        a->began = *first;
        a->told = judged;
    } else if (a->on && a->calm == ALARM_CALM_LOOKS) {
        news = ALARM_ENDS;
        a->on = false;
        a->told = since(counts, &a->began);
    } else if (a->on && now_ns - a->said_ns >= ALARM_AGAIN_NS && bad_of(counts) > bad_of(&a->said)) {
        news = ALARM_GOES_ON;
        a->told = since(counts, &a->said);
    }
    if (news != ALARM_NONE) {
        a->said_ns = now_ns;
        a->said = *counts;
    }
    return news;
}
