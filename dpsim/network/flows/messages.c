/* A collective operation as messages that share links max-min fairly, event by event.

   The rules are those of dpsim/network/flows/flows.py, which is the oracle of the tests: a rank
   begins a round when its transfers of the round before are done, posts its messages, and a
   transfer starts when both its ends have posted. After its latency it moves at its fair rate. Only
   flows that share a link with one that changed, directly or through others, are shared anew, and
   events of one instant are taken together. */

#include <math.h>
#include <stdint.h>
#include <stdlib.h>

#define SAME (1 + 1e-12)         /* levels that differ by rounding alone are one */
#define SAME_INSTANT (1 + 4e-15) /* so are times */
#define NONE (-1)

enum { POSTED, ARRIVED, ENDED };

typedef struct {
    double time;
    int32_t kind, which, version;
} Event;

typedef struct {
    int32_t transfer, version;
    double left, rate, updated;
    int32_t seen;
} Flow;

/* A flow on a link: the hop of a flow, between others on the same link. */
typedef struct {
    int32_t before, after;
} Hop;

typedef struct {
    /* Told by the caller. A transfer: its ends, round, route, bytes, and seconds to reduce them. */
    int64_t transfers, ranks, links, hops;
    const int32_t *source, *destination, *round, *route;
    const double *size, *reducing;
    const int32_t *link_of; /* by route and hop; NONE after the last */
    const double *latency;  /* by route */
    const double *capacity; /* B/s by link */
    double overhead;        /* s a message */
    double *finish;         /* by rank; holds when it starts, first */

    /* Made by `begin`. */
    int64_t running;
    double now;
    int32_t *mine, *first, *next, *until, *open; /* transfers of each rank in order; where it is */
    int8_t *posted;
    double *wait;
    Event *events;
    int64_t waiting, room_for_events;
    Flow *flows;
    Hop *on;
    int32_t *spare, spares, most_flows, instant;
    int32_t *head, *count, *seen; /* by link: its flows, how many, when last looked at */
    double *room, *level, *least;
    int32_t *changed, changes, *links_found, *flows_found;
    int out_of_memory;
} Run;

static void push(Run *run, double time, int32_t kind, int32_t which, int32_t version) {
    if (run->waiting == run->room_for_events) {
        int64_t more = 2 * run->room_for_events;
        Event *larger = realloc(run->events, more * sizeof(Event));
        if (!larger) {
            run->out_of_memory = 1;
            return;
        }
        run->events = larger;
        run->room_for_events = more;
    }
    int64_t at = run->waiting++;
    for (; at > 0 && run->events[(at - 1) / 2].time > time; at = (at - 1) / 2)
        run->events[at] = run->events[(at - 1) / 2];
    run->events[at] = (Event){time, kind, which, version};
}

static Event pop(Run *run) {
    Event first = run->events[0], last = run->events[--run->waiting];
    int64_t at = 0, child;
    for (; (child = 2 * at + 1) < run->waiting; at = child) {
        if (child + 1 < run->waiting && run->events[child + 1].time < run->events[child].time)
            child++;
        if (run->events[child].time >= last.time) break;
        run->events[at] = run->events[child];
    }
    run->events[at] = last;
    return first;
}

/* The rank goes on to its next round after `wait` seconds, and posts its messages. */
static void enter(Run *run, int32_t rank, double wait) {
    int32_t begin = run->next[rank], end = run->first[rank + 1], messages = 0, at = begin;
    if (begin == end) {
        run->finish[rank] = run->now + wait;
        run->running--;
        return;
    }
    int32_t round = run->round[run->mine[begin]];
    for (; at < end && run->round[run->mine[at]] == round; at++)
        messages += run->source[run->mine[at]] == rank;
    run->until[rank] = at;
    run->open[rank] = at - begin;
    run->wait[rank] = 0;
    push(run, run->now + (wait + messages * run->overhead), POSTED, rank, 0);
}

static void mark_changed(Run *run, int32_t link) {
    if (run->seen[link] == -run->instant) return;
    run->seen[link] = -run->instant;
    run->changed[run->changes++] = link;
}

static void end_transfer(Run *run, int32_t transfer) {
    int32_t ends[2] = {run->source[transfer], run->destination[transfer]};
    run->wait[ends[1]] += run->reducing[transfer];
    for (int each = 0; each < 2; each++) {
        int32_t rank = ends[each];
        if (--run->open[rank]) continue;
        run->posted[rank] = 0;
        run->next[rank] = run->until[rank];
        enter(run, rank, run->wait[rank]);
    }
}

static int more_flows(Run *run) {
    int32_t had = run->most_flows, more = had ? 2 * had : 1024;
    Flow *flows = realloc(run->flows, more * sizeof(Flow));
    if (flows) run->flows = flows;
    Hop *on = realloc(run->on, more * run->hops * sizeof(Hop));
    if (on) run->on = on;
    int32_t *spare = realloc(run->spare, more * sizeof(int32_t));
    if (spare) run->spare = spare;
    int32_t *found = realloc(run->flows_found, more * sizeof(int32_t));
    if (found) run->flows_found = found;
    if (!flows || !on || !spare || !found) return 0;
    for (int32_t flow = more - 1; flow >= had; flow--) {
        run->flows[flow].version = 0;
        run->flows[flow].seen = 0;
        run->spare[run->spares++] = flow;
    }
    run->most_flows = more;
    return 1;
}

static void arrive(Run *run, int32_t transfer) {
    const int32_t *links = run->link_of + run->route[transfer] * run->hops;
    if (links[0] == NONE || run->size[transfer] <= 0) { /* inside one device: there at once */
        end_transfer(run, transfer);
        return;
    }
    if (!run->spares && !more_flows(run)) {
        run->out_of_memory = 1;
        return;
    }
    int32_t flow = run->spare[--run->spares];
    Flow *made = &run->flows[flow];
    made->transfer = transfer;
    made->left = run->size[transfer];
    made->rate = 0;
    made->updated = run->now;
    for (int64_t hop = 0; hop < run->hops && links[hop] != NONE; hop++) {
        int32_t link = links[hop], at = flow * run->hops + hop;
        run->on[at] = (Hop){NONE, run->head[link]};
        if (run->head[link] != NONE) run->on[run->head[link]].before = at;
        run->head[link] = at;
        run->count[link]++;
        mark_changed(run, link);
    }
}

static void leave_links(Run *run, int32_t flow) {
    const int32_t *links = run->link_of + run->route[run->flows[flow].transfer] * run->hops;
    for (int64_t hop = 0; hop < run->hops && links[hop] != NONE; hop++) {
        Hop *on = &run->on[flow * run->hops + hop];
        if (on->before != NONE) run->on[on->before].after = on->after;
        else run->head[links[hop]] = on->after;
        if (on->after != NONE) run->on[on->after].before = on->before;
        run->count[links[hop]]--;
        mark_changed(run, links[hop]);
    }
    run->flows[flow].version++;
    run->spare[run->spares++] = flow;
}

static void happen(Run *run, Event event) {
    int32_t which = event.which;
    if (event.kind == ARRIVED) {
        arrive(run, which);
    } else if (event.kind == ENDED) {
        if (run->flows[which].version != event.version) return; /* its rate has changed since */
        leave_links(run, which);
        end_transfer(run, run->flows[which].transfer);
    } else {
        run->posted[which] = 1;
        for (int32_t at = run->next[which]; at < run->until[which]; at++) {
            int32_t transfer = run->mine[at];
            int32_t other = run->source[transfer] + run->destination[transfer] - which;
            int32_t theirs = run->next[other];
            if (run->posted[other] && run->round[run->mine[theirs]] == run->round[transfer])
                push(run, run->now + run->latency[run->route[transfer]], ARRIVED, transfer, 0);
        }
    }
}

static const int32_t *links_of(const Run *run, int32_t flow) {
    return run->link_of + run->route[run->flows[flow].transfer] * run->hops;
}

/* The flows joined to a link by shared links: into flows_found, the links into links_found. */
static int32_t joined(Run *run, int32_t link, int32_t *links) {
    int32_t flows = 0, found = 0;
    run->links_found[found++] = link;
    run->seen[link] = run->instant;
    for (int32_t next = 0; next < found; next++) {
        for (int32_t at = run->head[run->links_found[next]]; at != NONE; at = run->on[at].after) {
            int32_t flow = at / run->hops;
            if (run->flows[flow].seen == run->instant) continue;
            run->flows[flow].seen = run->instant;
            run->flows_found[flows++] = flow;
            const int32_t *way = links_of(run, flow);
            for (int64_t hop = 0; hop < run->hops && way[hop] != NONE; hop++) {
                if (run->seen[way[hop]] == run->instant) continue;
                run->seen[way[hop]] = run->instant;
                run->links_found[found++] = way[hop];
            }
        }
    }
    *links = found;
    return flows;
}

static void set_rate(Run *run, int32_t number, double rate) {
    Flow *flow = &run->flows[number];
    flow->left -= flow->rate * (run->now - flow->updated);
    flow->updated = run->now;
    flow->version += flow->rate != rate;
    flow->rate = rate;
}

/* Await the first ends among the flows found. Each of the others shares links with one of them,
   directly or through others, so it is shared anew then, and awaited if it is next. */
static void await_first(Run *run, int32_t flows) {
    double first = INFINITY;
    for (int32_t each = 0; each < flows; each++) {
        Flow *flow = &run->flows[run->flows_found[each]];
        double seconds = fmax(flow->left, 0) / flow->rate;
        if (flow->rate > 0 && seconds < first) first = seconds;
    }
    if (first == INFINITY) return;
    for (int32_t each = 0; each < flows; each++) {
        int32_t number = run->flows_found[each];
        Flow *flow = &run->flows[number];
        double nothing = 1e-12 * run->size[flow->transfer];
        if (flow->rate > 0 && flow->left - flow->rate * first <= nothing)
            push(run, run->now + first, ENDED, number, flow->version);
    }
}

/* Progressive filling, as in dpsim/network/maxmin.py, of the flows found over the links found. */
static void share(Run *run, int32_t all, int32_t links) {
    int32_t flows = all;
    for (int32_t each = 0; each < links; each++) {
        int32_t link = run->links_found[each];
        run->room[link] = run->capacity[link];
        run->level[link] = run->room[link] / run->count[link];
        run->least[link] = INFINITY;
    }
    while (flows) {
        for (int32_t each = 0; each < flows; each++) {
            const int32_t *way = links_of(run, run->flows_found[each]);
            double offered = INFINITY;
            for (int64_t hop = 0; hop < run->hops && way[hop] != NONE; hop++)
                if (run->level[way[hop]] < offered) offered = run->level[way[hop]];
            for (int64_t hop = 0; hop < run->hops && way[hop] != NONE; hop++)
                if (offered < run->least[way[hop]]) run->least[way[hop]] = offered;
        }
        int32_t kept = 0;
        for (int32_t each = 0; each < flows; each++) {
            int32_t flow = run->flows_found[each], full = 0;
            const int32_t *way = links_of(run, flow);
            double offered = INFINITY;
            for (int64_t hop = 0; hop < run->hops && way[hop] != NONE; hop++) {
                double level = run->level[way[hop]];
                if (level < offered) offered = level;
                full |= level <= run->least[way[hop]] * SAME;
            }
            if (!full) {
                run->flows_found[each] = run->flows_found[kept]; /* all stay, these in front */
                run->flows_found[kept++] = flow;
                continue;
            }
            set_rate(run, flow, offered);
            for (int64_t hop = 0; hop < run->hops && way[hop] != NONE; hop++)
                run->room[way[hop]] -= offered;
        }
        flows = kept;
        if (!flows) break;
        /* How many go on over each link: counted anew, into what the levels are made of. */
        for (int32_t each = 0; each < links; each++) run->level[run->links_found[each]] = 0;
        for (int32_t each = 0; each < flows; each++) {
            const int32_t *way = links_of(run, run->flows_found[each]);
            for (int64_t hop = 0; hop < run->hops && way[hop] != NONE; hop++)
                run->level[way[hop]] += 1;
        }
        for (int32_t each = 0; each < links; each++) {
            int32_t link = run->links_found[each];
            double room = fmax(run->room[link], 0.0), load = run->level[link];
            run->room[link] = room;
            run->level[link] = load > 0 ? room / load : INFINITY;
            run->least[link] = INFINITY;
        }
    }
    await_first(run, all);
}

/* Let up to `most` instants happen. 0: all is done; 1: there is more; 2: nothing can move any more;
   3: there is no memory left. */
int messages_go_on(Run *run, int64_t most) {
    for (int64_t turn = 0; turn < most; turn++) {
        if (!run->running) return 0;
        if (run->out_of_memory) return 3;
        if (!run->waiting) return 2;
        run->now = run->events[0].time;
        run->instant++;
        run->changes = 0;
        while (run->waiting && run->events[0].time <= run->now * SAME_INSTANT)
            happen(run, pop(run));
        for (int32_t each = 0; each < run->changes; each++) {
            int32_t links, link = run->changed[each];
            if (run->seen[link] == run->instant || run->head[link] == NONE) continue;
            int32_t flows = joined(run, link, &links);
            share(run, flows, links);
        }
    }
    return 1;
}

int64_t messages_bytes(void) { return sizeof(Run); }

static void *zeros(int64_t count, int64_t size) { return calloc(count > 0 ? count : 1, size); }

void messages_close(Run *run) {
    void *made[] = {run->mine,    run->first,       run->next,       run->until, run->open,
                    run->posted,  run->wait,        run->events,      run->flows, run->on,
                    run->spare,   run->head,        run->count,       run->seen,  run->room,
                    run->level,   run->least,       run->changed,     run->links_found,
                    run->flows_found};
    for (size_t each = 0; each < sizeof made / sizeof *made; each++) free(made[each]);
}

/* Make what a run needs, and let every rank enter at its time. 0: done; 3: no memory. */
int messages_begin(Run *run) {
    int64_t ranks = run->ranks, links = run->links;
    run->mine = zeros(2 * run->transfers, sizeof(int32_t));
    run->first = zeros(ranks + 2, sizeof(int32_t));
    run->next = zeros(ranks, sizeof(int32_t));
    run->until = zeros(ranks, sizeof(int32_t));
    run->open = zeros(ranks, sizeof(int32_t));
    run->posted = zeros(ranks, 1);
    run->wait = zeros(ranks, sizeof(double));
    run->room_for_events = 2 * ranks + 64;
    run->events = zeros(run->room_for_events, sizeof(Event));
    run->head = zeros(links, sizeof(int32_t));
    run->count = zeros(links, sizeof(int32_t));
    run->seen = zeros(links, sizeof(int32_t));
    run->room = zeros(links, sizeof(double));
    run->level = zeros(links, sizeof(double));
    run->least = zeros(links, sizeof(double));
    run->changed = zeros(links, sizeof(int32_t));
    run->links_found = zeros(links, sizeof(int32_t));
    if (!run->mine || !run->first || !run->next || !run->until || !run->open || !run->posted ||
        !run->wait || !run->events || !run->head || !run->count || !run->seen || !run->room ||
        !run->level || !run->least || !run->changed || !run->links_found || !more_flows(run))
        return 3;
    for (int64_t link = 0; link < links; link++) run->head[link] = NONE;

    /* Transfers by rank, in the order of rounds, which is theirs: a counting sort. */
    for (int64_t each = 0; each < run->transfers; each++) {
        run->first[run->source[each] + 2]++;
        run->first[run->destination[each] + 2]++;
    }
    for (int64_t rank = 0; rank < ranks; rank++) run->first[rank + 2] += run->first[rank + 1];
    for (int32_t each = 0; each < run->transfers; each++) {
        run->mine[run->first[run->source[each] + 1]++] = each;
        run->mine[run->first[run->destination[each] + 1]++] = each;
    }
    run->running = ranks;
    for (int64_t rank = 0; rank < ranks; rank++) {
        run->next[rank] = run->first[rank];
        run->now = run->finish[rank];
        enter(run, rank, 0);
    }
    run->now = 0;
    return run->out_of_memory ? 3 : 0;
}
