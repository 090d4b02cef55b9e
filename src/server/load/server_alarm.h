/* server_alarm.h - says in the log which models' requests are not served in time, and why: when it begins, once a
 * minute while it goes on, and when it is over (core/data/alarm.h). */
#pragma once

#include "server/threads/model_list.h"

#define ALARM_LINES_MOST 20 /* lines about models that are written in a minute; the others are counted */

struct server_alarm;

/* For a process with frontends, which count what their clients got. `trails_keep`: trails that each keeps of each
 * state. 0 or -ENOMEM; free it in either case. */
int server_alarm_create(struct server_alarm **alarm, struct model_list *models, uint32_t trails_keep);
void server_alarm_free(struct server_alarm *alarm);
/* Looks at the counts, every second. Always the same thread. NULL is allowed. */
void server_alarm_look(struct server_alarm *alarm);
