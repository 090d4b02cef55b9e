/* alarm.h - when the log is to say that the requests of a model are not served in time, and when that is over. Pure.
 *
 * It is said when over 1 % of the requests of the last 5 looks were bad, and more than one was; again after each minute
 * for which that goes on, if more are bad since; and when there were no more bad ones than that for 10 looks. A look
 * comes every second. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "core/util/time.h"

#define ALARM_LOOKS      5  /* looks that are judged together */
#define ALARM_CALM_LOOKS 10 /* looks without too many bad requests, after which it is over */
#define ALARM_SHARE      0.01
#define ALARM_AGAIN_NS   (60 * NS_PER_S)

/* Requests of one model. */
struct alarm_counts {
    uint64_t requests;              /* all, but those that were the client's mistake or that it cancelled */
    uint64_t refused, failed, late; /* the bad ones of them */
};

enum alarm_news {
    ALARM_NONE,
    ALARM_BEGINS,  /* `told` is of the last looks */
    ALARM_GOES_ON, /* `told` is since the last news */
    ALARM_ENDS,    /* `told` is since it began */
};

/* All zeros: nothing was seen yet. */
struct alarm {
    struct alarm_counts at[ALARM_LOOKS + 1]; /* counts at the last looks, a circle */
    uint32_t looks;                          /* number of looks */
    uint8_t calm;                            /* looks since too many requests were bad, at most ALARM_CALM_LOOKS */
    bool on;
    int64_t since_ns, said_ns;       /* while it is on: when it began, and when there was news last */
    struct alarm_counts began, said; /* counts before the first looks that were judged so; at the last news */
    struct alarm_counts told;        /* requests that the last news is about */
};

/* Takes the model's counts since it was loaded. */
enum alarm_news alarm_look(struct alarm *alarm, int64_t now_ns, const struct alarm_counts *counts);
