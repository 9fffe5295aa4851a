/* Max-min fair rates of flows over known routes.

   dpsim/network/maxmin.py (progressive filling) is the oracle of the tests. What differs is how
   routes are told (known_routes.h), and that cells that are alike are filled as one. So a change
   takes time that grows with the groups and links that differ, not with the product of all. */

#include "known_routes.h"

/* Links that offer at most so many times the least are filled before the others are looked at anew:
   of 128 to 512 nodes at servers few enough, and often enough all that matter. */
#define NEAR 1.1

enum { SETTLED, OPEN, SPARED };    /* a group's rate; SPARED: the link that is full is not its */
enum { ELSEWHERE, REACHED, FULL }; /* a link */

/* Let groups of a cell, as far as they move, take the rates of its chief's. */
static void point(Network *net, const Cell *cell) {
    int64_t away = net->cell[cell->chief].group_begin - cell->group_begin;
    for (int64_t number = cell->group_begin; number < cell->group_end; number++)
        if (net->group[number].weight > 0) {
            Moving *moving = &net->moving[net->group[number].place];
            moving->like = number + away;
        }
}

static void take_place(Network *net, int64_t number, int64_t place) {
    net->chiefs[place] = number;
    net->cell[number].place = place;
}

/* Take a cell out of those that are alike. */
static void leave(Network *net, int64_t number) {
    Cell *cell = &net->cell[number], *chief = &net->cell[cell->chief];
    if (cell->after >= 0) net->cell[cell->after].before = cell->before;
    if (cell != chief) {
        net->cell[cell->before].after = cell->after;
        chief->alike--;
    } else if (cell->after < 0) {
        take_place(net, net->chiefs[--net->chief_count], cell->place);
    } else {
        int64_t next = cell->after;
        take_place(net, next, cell->place);
        net->cell[next].alike = cell->alike - 1;
        for (int64_t each = next; each >= 0; each = net->cell[each].after) {
            net->cell[each].chief = next;
            point(net, &net->cell[each]);
        }
    }
    cell->chief = -1;
}

static int are_alike(const Network *net, const Cell *one, const Cell *other) {
    if (one->kind != other->kind) return 0;
    const Group *own = &net->group[one->group_begin], *others = &net->group[other->group_begin];
    for (int64_t each = 0; each < one->group_end - one->group_begin; each++)
        if (own[each].weight != others[each].weight) return 0;
    return 1;
}

/* Put a cell to those that are alike. */
static void join(Network *net, int64_t number) {
    Cell *cell = &net->cell[number];
    int64_t place = 0;
    while (place < net->chief_count && !are_alike(net, cell, &net->cell[net->chiefs[place]]))
        place++;
    if (place < net->chief_count) {
        int64_t chief = net->chiefs[place], after = net->cell[chief].after;
        cell->chief = cell->before = chief;
        cell->after = after;
        if (after >= 0) net->cell[after].before = number;
        net->cell[chief].after = number;
        net->cell[chief].alike++;
    } else {
        cell->chief = number;
        cell->before = cell->after = -1;
        cell->alike = 1;
        take_place(net, number, net->chief_count++);
    }
    point(net, cell);
}

/* Tell anew which cells are alike. Before the first call, no cell has a chief. */
void cells_sort(Network *net) {
    for (int64_t number = 0; number < net->cells; number++) join(net, number);
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

static void reach_group(Network *net, int64_t number, double times, Reach *reach) {
    Group *group = &net->group[number];
    if (group->open || group->weight == 0) return;
    group->open = OPEN;
    group->times = times;
    net->groups[reach->groups++] = number;
}

static void reach_from_group(Network *net, int64_t number, Reach *reach) {
    const Group *group = &net->group[number];
    for (int64_t own = group->own_begin; own < group->own_end; own++)
        reach_link(net, net->own[own].to, reach);
}

/* Groups and links that are joined to a change, where there are no hubs. */
static Reach reach_joined(Network *net) {
    Reach reach = {0, 0};
    for (int64_t each = 0; each < net->changes; each++)
        reach_from_group(net, net->changed[each], &reach);
    for (int64_t groups = 0, links = 0; groups < reach.groups || links < reach.links;) {
        if (groups < reach.groups) {
            reach_from_group(net, net->groups[groups++], &reach);
        } else if (reach.groups == net->actives) {
            break;
        } else {
            const Link *link = &net->link[net->links[links++]];
            for (int64_t on = link->on_begin; on < link->on_end; on++)
                if (net->on[on].share > 0) reach_group(net, net->on[on].to, 1, &reach);
        }
    }
    return reach;
}

/* Hubs join all there is: of cells that are alike, one. */
static Reach reach_cells(Network *net) {
    Reach reach = {0, 0};
    for (int64_t each = 0; each < net->changes; each++) {
        int64_t cell = net->group[net->changed[each]].cell;
        if (net->cell[cell].chief >= 0) leave(net, cell);
    }
    for (int64_t each = 0; each < net->changes; each++) {
        int64_t cell = net->group[net->changed[each]].cell;
        if (net->cell[cell].chief < 0) join(net, cell);
    }
    for (int64_t each = 0; each < net->chief_count; each++) {
        const Cell *cell = &net->cell[net->chiefs[each]];
        for (int64_t link = cell->link_begin; link < cell->link_end; link++)
            reach_link(net, link, &reach);
        for (int64_t group = cell->group_begin; group < cell->group_end; group++)
            reach_group(net, group, (double)cell->alike, &reach);
    }
    for (int64_t each = 0; each < net->hubs; each++) {
        Hub *hub = &net->hub[each];
        hub->open = hub->member_begin;
        hub->weight = hub->rate = 0;
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
    hub->weight += group->times * group->weight;
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
    net->hub[group->hub].weight -= group->times * group->weight;
    net->hub[group->hub].rate += group->times * taken;
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
        /* What leaves out a link of its own cell crosses the equal one of each cell like it. */
        if (net->on[on].share > 0 || group->times > 1) {
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

void fill_links(Network *net) {
    Reach reach = net->cells ? reach_cells(net) : reach_joined(net);
    int64_t open = reach.groups, links = reach.links;
    double least;
    for (int64_t each = 0; each < reach.groups; each++) load_links(net, net->groups[each]);
    while (open && (links = look(net, links, &least)) > 0)
        open -= fill_near(net, links, NEAR * least);

    for (int64_t each = 0; each < net->changes; each++) net->group[net->changed[each]].changed = 0;
    for (int64_t each = 0; each < reach.groups; each++) net->group[net->groups[each]].open = SETTLED;
    for (int64_t each = 0; each < reach.links; each++) net->link[net->links[each]].state = ELSEWHERE;
    net->changes = 0;
}
