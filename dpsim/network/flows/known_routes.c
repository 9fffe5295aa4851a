/* Flows under way over routes that are known beforehand, and their max-min fair rates.

   dpsim/network/maxmin.py (progressive filling) is the oracle of the tests. What differs is how
   routes are told. Flows by equal routes are a group: they have one rate, so that a clock of bytes
   tells how far all of them are. The routes of a hub are alike but for a few links: the hub's links
   hold for all its groups, and a group's own entries say where it differs.

   Only what is joined to a change by shared links is shared anew, in time that grows with its
   groups and links, and not with the product of both. */

#include <math.h>
#include <stdint.h>

/* By its group's clock, all bytes of a flow are there at `target`, nearly all when it is `due`. The
   flows of a group are a chain (-1: none before, or after). */
typedef struct {
    int64_t route, call, number, before, after;
    double weight, size, target, due;
} Flow;

typedef struct {
    int64_t own_begin, own_end;  /* where it differs from its hub */
    int64_t hub;                 /* -1: none */
    int64_t first, place, changed, open;
    double weight, rate, clock, least_target, least_due;
} Group;

typedef struct {
    int64_t on_begin, on_end;       /* groups with an entry of their own for it */
    int64_t under_begin, under_end; /* hubs that it is a link of */
    int64_t state;
    double capacity, load, room;
} Link;

typedef struct {
    int64_t link_begin, link_end, member_begin, member_end, open, reached;
    double weight, rate;
} Hub;

/* `to` a link, a group or a hub. A group takes the share of a link that `on` says (0: it leaves out
   a link of its hub); `own` has what this is beyond what its hub counts for it there. */
typedef struct {
    int64_t to;
    double share;
} Entry;

typedef struct {
    int64_t link;
    double level;
} Offer;

typedef struct {
    const int64_t *group_of; /* by route */
    const Entry *own, *on, *under;
    const int64_t *hub_link, *member;
    Flow *flow;
    Group *group;
    Link *link;
    Hub *hub;
    int64_t *active, *changed;             /* groups with a flow; groups that have changed */
    int64_t *groups, *links, *open_member; /* what a change reaches; a hub's that are open */
    Offer *heap;
    int64_t *ended_call, *ended_number;
    int64_t flows, actives, changes, hubs;
} Network;

/* Links that offer at most so many times the least are filled before the others are looked at anew:
   of 128 to 512 nodes at servers few enough, and often enough all that matter. */
#define NEAR 1.1

enum { SETTLED, OPEN, SPARED };    /* a group's rate; SPARED: the link that is full is not its */
enum { ELSEWHERE, REACHED, FULL }; /* a link */

static void change(Network *net, int64_t number) {
    if (net->group[number].changed) return;
    net->group[number].changed = 1;
    net->changed[net->changes++] = number;
}

static void begin_group(Network *net, int64_t number) {
    Group *group = &net->group[number];
    group->clock = group->rate = 0;
    group->least_target = group->least_due = INFINITY;
    group->first = -1;
    group->place = net->actives;
    net->active[net->actives++] = number;
}

static void end_group(Network *net, int64_t number) {
    int64_t place = net->group[number].place, last = net->active[--net->actives];
    net->active[place] = last;
    net->group[last].place = place;
}

static void count_in(Group *group, const Flow *flow) {
    if (flow->target < group->least_target) group->least_target = flow->target;
    if (flow->due < group->least_due) group->least_due = flow->due;
}

/* Let in a flow that does not move yet. */
void flows_add(Network *net, int64_t route, int64_t call, int64_t number, double weight,
               double size, double left) {
    int64_t row = net->flows++, of = net->group_of[route];
    Group *group = &net->group[of];
    if (group->weight == 0) begin_group(net, of);
    /* What crosses no link (inside one device) is there as soon as its latency is over. */
    if (group->hub < 0 && group->own_begin == group->own_end) left = 0;
    Flow *flow = &net->flow[row];
    *flow = (Flow){.route = route, .call = call, .number = number, .weight = weight, .size = size};
    flow->target = group->clock + left;
    /* But for nearly nothing, and for what a clock of so many bytes rounds off. */
    flow->due = flow->target * (1 - 1e-15) - 1e-12 * size;
    flow->before = -1;
    flow->after = group->first;
    if (group->first >= 0) net->flow[group->first].before = row;
    group->first = row;
    group->weight += weight;
    count_in(group, flow);
    change(net, of);
}

static void set_neighbours(Network *net, const Flow *flow, int64_t before_is, int64_t after_is) {
    if (flow->before >= 0) net->flow[flow->before].after = after_is;
    else net->group[net->group_of[flow->route]].first = after_is;
    if (flow->after >= 0) net->flow[flow->after].before = before_is;
}

/* Take a flow out of its group's chain; the last one takes its row. */
static void take_out(Network *net, int64_t row) {
    Flow *flow = &net->flow[row];
    int64_t last = --net->flows;
    net->group[net->group_of[flow->route]].weight -= flow->weight;
    set_neighbours(net, flow, flow->before, flow->after);
    if (row == last) return;
    *flow = net->flow[last];
    set_neighbours(net, flow, row, row);
}

/* Flows of a group have been taken out. */
static void count_anew(Network *net, int64_t number) {
    Group *group = &net->group[number];
    group->least_target = group->least_due = INFINITY;
    for (int64_t row = group->first; row >= 0; row = net->flow[row].after)
        count_in(group, &net->flow[row]);
    if (group->first < 0) end_group(net, number);
    change(net, number);
}

/* Drop a flow; the last one takes its row. */
void flows_drop(Network *net, int64_t row) {
    int64_t group = net->group_of[net->flow[row].route];
    take_out(net, row);
    count_anew(net, group);
}

/* Let all flows move at their rates. */
void flows_move(Network *net, double seconds) {
    for (int64_t each = 0; each < net->actives; each++) {
        Group *group = &net->group[net->active[each]];
        group->clock += group->rate * seconds;
    }
}

/* Let all flows move until `now`. Those that are through, but for what rounding leaves at such a
   clock, are dropped and listed. */
int64_t flows_end(Network *net, double seconds, double now) {
    int64_t found = 0;
    flows_move(net, seconds);
    /* Backwards: where a group ends, the last one takes its place. */
    for (int64_t each = net->actives - 1; each >= 0; each--) {
        int64_t number = net->active[each];
        const Group *group = &net->group[number];
        double reached = group->clock + group->rate * (now * 1e-15);
        if (group->least_due > reached) continue;
        for (int64_t row = group->first, after; row >= 0; row = after) {
            const Flow *flow = &net->flow[row];
            after = flow->after;
            if (flow->due > reached) continue;
            net->ended_call[found] = flow->call;
            net->ended_number[found++] = flow->number;
            take_out(net, row);
            if (after == net->flows) after = row; /* it was the last, which has moved */
        }
        count_anew(net, number);
    }
    return found;
}

/* What a filling is about to go through. */
typedef struct {
    int64_t groups, links;
} Reach;

static void reach_link(Network *net, int64_t number, Reach *reach) {
    Link *link = &net->link[number];
    if (link->state) return;
    link->state = REACHED;
    link->load = 0;
    link->room = link->capacity;
    net->links[reach->links++] = number;
}

static void reach_group(Network *net, int64_t number, Reach *reach) {
    Group *group = &net->group[number];
    if (group->open || group->weight == 0) return;
    group->open = OPEN;
    net->groups[reach->groups++] = number;
}

static void reach_hub(Network *net, int64_t number, Reach *reach) {
    Hub *hub = &net->hub[number];
    if (hub->reached) return;
    hub->reached = 1;
    hub->weight = hub->rate = 0;
    hub->open = hub->member_begin;
    for (int64_t at = hub->link_begin; at < hub->link_end; at++)
        reach_link(net, net->hub_link[at], reach);
    for (int64_t at = hub->member_begin; at < hub->member_end; at++)
        reach_group(net, net->member[at], reach);
}

static void reach_from_group(Network *net, int64_t number, Reach *reach) {
    const Group *group = &net->group[number];
    for (int64_t own = group->own_begin; own < group->own_end; own++)
        reach_link(net, net->own[own].to, reach);
    if (group->hub >= 0) reach_hub(net, group->hub, reach);
}

static void reach_from_link(Network *net, int64_t number, Reach *reach) {
    const Link *link = &net->link[number];
    for (int64_t on = link->on_begin; on < link->on_end; on++)
        if (net->on[on].share > 0) reach_group(net, net->on[on].to, reach);
    for (int64_t under = link->under_begin; under < link->under_end; under++)
        reach_hub(net, net->under[under].to, reach);
}

/* The groups and links that are joined to a change. */
static Reach reach_all(Network *net) {
    Reach reach = {0, 0};
    for (int64_t each = 0; each < net->changes; each++) {
        net->group[net->changed[each]].changed = 0;
        reach_from_group(net, net->changed[each], &reach);
    }
    net->changes = 0;
    for (int64_t groups = 0, links = 0; groups < reach.groups || links < reach.links;) {
        if (groups < reach.groups) reach_from_group(net, net->groups[groups++], &reach);
        else if (reach.groups == net->actives) break; /* hubs without flows were left with no rate */
        else reach_from_link(net, net->links[links++], &reach);
    }
    return reach;
}

/* What its links have to share with a group. */
static void load_links(Network *net, int64_t number) {
    const Group *group = &net->group[number];
    for (int64_t own = group->own_begin; own < group->own_end; own++)
        net->link[net->own[own].to].load += net->own[own].share * group->weight;
    if (group->hub < 0) return;
    Hub *hub = &net->hub[group->hub];
    hub->weight += group->weight;
    net->open_member[hub->open++] = number;
}

/* Its rate is for good. */
static void settle_group(Network *net, int64_t number, double rate) {
    Group *group = &net->group[number];
    double taken = rate * group->weight;
    group->rate = rate;
    group->open = SETTLED;
    for (int64_t own = group->own_begin; own < group->own_end; own++) {
        Link *link = &net->link[net->own[own].to];
        link->load -= net->own[own].share * group->weight;
        link->room -= net->own[own].share * taken;
    }
    if (group->hub < 0) return;
    net->hub[group->hub].weight -= group->weight;
    net->hub[group->hub].rate += taken;
}

/* What a link can still offer each of its open flows, if they are alike. */
static double offered(const Network *net, const Link *link) {
    if (link->state == FULL) return INFINITY; /* none is open */
    double load = link->load, room = link->room;
    for (int64_t under = link->under_begin; under < link->under_end; under++) {
        const Hub *hub = &net->hub[net->under[under].to];
        load += net->under[under].share * hub->weight;
        room -= net->under[under].share * hub->rate;
    }
    if (load <= 0) return INFINITY;
    return room > 0 ? room / load : 0.0;
}

/* A link is full: open groups that cross it have their rate for good. Returns how many. */
static int64_t settle_link(Network *net, Link *link, double rate) {
    int64_t settled = 0;
    link->state = FULL;
    for (int64_t on = link->on_begin; on < link->on_end; on++) {
        Group *group = &net->group[net->on[on].to];
        if (!group->open) continue;
        if (net->on[on].share > 0) {
            settle_group(net, net->on[on].to, rate);
            settled++;
        } else {
            group->open = SPARED;
        }
    }
    for (int64_t under = link->under_begin; under < link->under_end; under++) {
        Hub *hub = &net->hub[net->under[under].to];
        int64_t kept = hub->member_begin;
        for (int64_t at = hub->member_begin; at < hub->open; at++) {
            int64_t number = net->open_member[at];
            if (net->group[number].open == SPARED) {
                net->open_member[kept++] = number;
            } else if (net->group[number].open == OPEN) {
                settle_group(net, number, rate);
                settled++;
            }
        }
        hub->open = kept;
    }
    for (int64_t on = link->on_begin; on < link->on_end; on++)
        if (net->group[net->on[on].to].open) net->group[net->on[on].to].open = OPEN;
    return settled;
}

/* Look at the first `links` links anew: those that open groups cross go to the front, and into the
   heap, not in order yet. Returns how many these are, and the least that any of them offers. */
static int64_t look(Network *net, int64_t links, double *least) {
    int64_t crossed = 0;
    *least = INFINITY;
    for (int64_t each = 0; each < links; each++) {
        int64_t number = net->links[each];
        double level = offered(net, &net->link[number]);
        if (level == INFINITY) continue;
        net->links[each] = net->links[crossed];
        net->links[crossed] = number;
        net->heap[crossed++] = (Offer){number, level};
        if (level < *least) *least = level;
    }
    return crossed;
}

static void sink(Offer *heap, int64_t count, int64_t place) {
    Offer offer = heap[place];
    for (int64_t child; (child = 2 * place + 1) < count; place = child) {
        if (child + 1 < count && heap[child + 1].level < heap[child].level) child++;
        if (heap[child].level >= offer.level) break;
        heap[place] = heap[child];
    }
    heap[place] = offer;
}

/* Fill those of the first `links` links in the heap that offer at most `most`, the least of them
   first. What the others offer only grows meanwhile, so that a heap by what each offered when it
   was last looked at has a lower bound on top. Returns how many groups it settles. */
static int64_t fill_near(Network *net, int64_t links, double most) {
    Offer *heap = net->heap;
    int64_t count = 0, settled = 0;
    for (int64_t each = 0; each < links; each++)
        if (heap[each].level <= most) heap[count++] = heap[each];
    for (int64_t place = count / 2 - 1; place >= 0; place--) sink(heap, count, place);
    while (count) {
        Link *link = &net->link[heap->link];
        double level = offered(net, link);
        if (level <= heap->level) {
            settled += settle_link(net, link, level);
            level = INFINITY;
        }
        heap->level = level;
        if (level > most) *heap = heap[--count];
        sink(heap, count, 0);
    }
    return settled;
}

static void fill(Network *net, Reach reach) {
    int64_t open = reach.groups, links = reach.links;
    double least;
    for (int64_t each = 0; each < reach.groups; each++) load_links(net, net->groups[each]);
    while (open && (links = look(net, links, &least)) > 0)
        open -= fill_near(net, links, NEAR * least);
}

/* Max-min fair rates of what is joined to a change; returns the seconds until the first of all
   flows is through. */
double flows_share(Network *net) {
    Reach reach = reach_all(net);
    fill(net, reach);
    for (int64_t each = 0; each < reach.groups; each++) net->group[net->groups[each]].open = SETTLED;
    for (int64_t each = 0; each < reach.links; each++) net->link[net->links[each]].state = ELSEWHERE;
    for (int64_t each = 0; each < net->hubs; each++) net->hub[each].reached = 0;

    double next = INFINITY;
    for (int64_t each = 0; each < net->actives; each++) {
        const Group *group = &net->group[net->active[each]];
        double seconds = (group->least_target - group->clock) / group->rate;
        if (group->rate > 0 && seconds < next) next = seconds;
    }
    return next;
}
