/* matching.c - least-cost assignment by shortest augmenting paths.
 *
 * The shorter side's vertices ("agents") are matched one after the other to those of the longer side ("tasks"). For a
 * new agent, Dijkstra's algorithm over reduced costs c - u - v finds the cheapest path that ends in a free task and
 * alternates between pairs to make and pairs to undo:
 *
 *     agent --- task === agent --- task === agent --- free task        === matched, to be undone
 *
 * A forbidden pair costs more than all others together, so as few as possible are made; those are undone at the end. */
#include "sched/plan/matching.h"

#include <stdbool.h>

#include "core/util/assert.h"

struct solver {
    const int64_t *cost;
    size_t agent_stride, task_stride;
    uint32_t agents, tasks;
    int64_t forbidden;        /* cost that a forbidden pair counts with */
    int64_t *agent_dual;      /* [agents] u */
    int64_t *task_dual;       /* [tasks] v */
    int64_t *distance;        /* [tasks] length of the shortest path to each task */
    uint32_t *before;         /* [tasks] agent before each task on its shortest path */
    uint32_t *agent_of;       /* [tasks] matched agent, or MATCHING_NONE */
    uint32_t *task_of;        /* [agents] matched task, or MATCHING_NONE */
    uint32_t *order;          /* [tasks] tasks that are not reached yet, then those that are */
    uint32_t order_unreached; /* tasks that are not reached yet */
};

size_t matching_bytes(uint32_t rows, uint32_t columns) {
    size_t shorter = rows < columns ? rows : columns, longer = rows < columns ? columns : rows;
    return shorter * (sizeof(int64_t) + sizeof(uint32_t)) + longer * (2 * sizeof(int64_t) + 3 * sizeof(uint32_t));
}

static void solver_init(struct solver *s, const int64_t *cost, uint32_t rows, uint32_t columns, void *memory) {
    bool by_row = rows <= columns;
    *s = (struct solver){
        .cost = cost,
        .agents = by_row ? rows : columns,
        .tasks = by_row ? columns : rows,
        .agent_stride = by_row ? columns : 1,
        .task_stride = by_row ? 1 : columns,
    };
    s->agent_dual = memory;
    s->task_dual = s->agent_dual + s->agents;
    s->distance = s->task_dual + s->tasks;
    s->before = (uint32_t *)(s->distance + s->tasks);
    s->agent_of = s->before + s->tasks;
    s->order = s->agent_of + s->tasks;
    s->task_of = s->order + s->tasks;
    int64_t greatest = 0;
    for (size_t i = 0; i < (size_t)rows * columns; i++) {
        CHECK_GE(cost[i], 0);
        if (cost[i] != MATCHING_FORBIDDEN && cost[i] > greatest)
            greatest = cost[i];
    }
    int64_t k = (int64_t)s->agents + 1;
    CHECK_LT(greatest, (INT64_C(1) << 62) / (k * k));
    s->forbidden = (greatest + 1) * k;
    for (uint32_t agent = 0; agent < s->agents; agent++) {
        s->agent_dual[agent] = 0;
        s->task_of[agent] = MATCHING_NONE;
    }
    for (uint32_t task = 0; task < s->tasks; task++) {
        s->task_dual[task] = 0;
        s->agent_of[task] = MATCHING_NONE;
    }
}

/* Moves the nearest task that was not reached yet to the reached ones, after looking from `agent`, `length` away. A
 * free task goes before a matched one that is as near: it ends the search. */
static uint32_t nearest_take(struct solver *s, uint32_t agent, int64_t length) {
    uint32_t best = 0;
    bool best_free = false;
    int64_t least = INT64_MAX;
    for (uint32_t i = 0; i < s->order_unreached; i++) {
        uint32_t task = s->order[i];
        int64_t cost = s->cost[agent * s->agent_stride + task * s->task_stride];
        cost = cost == MATCHING_FORBIDDEN ? s->forbidden : cost;
        int64_t via = length + cost - s->agent_dual[agent] - s->task_dual[task];
        if (via < s->distance[task]) {
            s->distance[task] = via;
            s->before[task] = agent;
        }
        bool free = s->agent_of[task] == MATCHING_NONE;
        if (s->distance[task] < least || (s->distance[task] == least && free && !best_free)) {
            least = s->distance[task];
            best = i;
            best_free = free;
        }
    }
    uint32_t task = s->order[best];
    s->order[best] = s->order[--s->order_unreached];
    s->order[s->order_unreached] = task;
    return task;
}

static void agent_match(struct solver *s, uint32_t agent) {
    for (uint32_t task = 0; task < s->tasks; task++) {
        s->distance[task] = INT64_MAX;
        s->order[task] = task;
    }
    s->order_unreached = s->tasks;
    uint32_t from = agent, task = nearest_take(s, agent, 0);
    while (s->agent_of[task] != MATCHING_NONE) {
        from = s->agent_of[task];
        task = nearest_take(s, from, s->distance[task]);
    }
    int64_t length = s->distance[task];
    /* reduced costs stay 0 or more, and 0 along matched pairs */
    s->agent_dual[agent] += length;
    for (uint32_t i = s->order_unreached; i < s->tasks; i++) {
        uint32_t reached = s->order[i];
        int64_t slack = length - s->distance[reached];
        s->task_dual[reached] -= slack;
        if (s->agent_of[reached] != MATCHING_NONE)
            s->agent_dual[s->agent_of[reached]] += slack;
    }
    do { /* back along the path */
        from = s->before[task];
        uint32_t undone = s->task_of[from];
        s->agent_of[task] = from;
        s->task_of[from] = task;
        task = undone;
    } while (from != agent);
}

int64_t matching_solve(const int64_t *cost, uint32_t rows, uint32_t columns, void *memory, uint32_t *column_of) {
    struct solver s;
    solver_init(&s, cost, rows, columns, memory);
    for (uint32_t agent = 0; agent < s.agents; agent++)
        agent_match(&s, agent);

    const uint32_t *match = rows <= columns ? s.task_of : s.agent_of;
    int64_t sum = 0;
    for (uint32_t row = 0; row < rows; row++) {
        uint32_t column = match[row];
        if (column != MATCHING_NONE && cost[(size_t)row * columns + column] == MATCHING_FORBIDDEN)
            column = MATCHING_NONE;
        column_of[row] = column;
        if (column != MATCHING_NONE)
            sum += cost[(size_t)row * columns + column];
    }
    return sum;
}
