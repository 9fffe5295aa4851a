/* Flows under way and their max-min fair rates, as loops over arrays.

   The arithmetic is that of dpsim/network/maxmin.py (progressive filling), which is the oracle of
   the tests. What differs is how routes are told. Flows by equal routes are a group. The routes of
   a hub are alike but for a few links: the hub's entries hold for all its groups, and a group's own
   entries say where it differs: a link with the share it takes, and the hub's entry that this
   replaces (-1: none). A share of 0 means that the group leaves that link out.

   A turn of the filling so takes time that grows with groups and links, and not with their product.
   Weights are whole numbers, so that what is left of a hub after exclusions is exact. */

#include <math.h>
#include <stdint.h>

#define FEW 8            /* candidates kept of a hub, before all of it is looked at */
#define SAME (1 + 1e-12) /* levels that differ by rounding alone are one */

typedef struct {
    /* Groups of routes, and hubs. */
    const int64_t *group_of;  /* by route */
    const int64_t *own_begin; /* groups + 1 */
    const int64_t *own_link, *own_replaces;
    const double *own_share;
    const int64_t *hub_of;    /* by group; -1: none */
    int64_t hubs;
    const int64_t *hub_begin; /* hubs + 1 */
    const int64_t *hub_link;
    const double *hub_share;
    const double *capacity;   /* B/s by link */

    /* Flows, a row each. */
    int64_t *route, *batch, *number;
    double *weight, *size, *left, *rate;
    int64_t *rows;            /* what an answer or a question lists */

    /* Scratch: by group, by link, by hub's entry, by hub. */
    double *group_weight, *offered, *least_left;
    int64_t *active;
    double *room, *load, *level, *least;
    int64_t *used;
    int8_t *full, *seen;
    double *replaced_weight, *replaced_rate;
    int64_t *replaced_by;
    double *hub_weight, *hub_rate;
} Network;

/* Let all flows move for some seconds, until `now`; which of them are through, but for what rounding
   leaves at such a clock: into rows, in order. */
int64_t advance(Network *net, int64_t flows, double seconds, double now) {
    int64_t found = 0;
    double rounding = now * 1e-15;
    for (int64_t row = 0; row < flows; row++) net->left[row] -= net->rate[row] * seconds;
    for (int64_t row = 0; row < flows; row++)
        if (net->left[row] <= 1e-12 * net->size[row] + net->rate[row] * rounding)
            net->rows[found++] = row;
    return found;
}

/* Drop the flows in rows (ascending); the last ones take their places. */
void drop(Network *net, int64_t flows, int64_t gone) {
    for (int64_t place = gone - 1; place >= 0; place--) {
        int64_t to = net->rows[place], from = --flows;
        net->route[to] = net->route[from];
        net->batch[to] = net->batch[from];
        net->number[to] = net->number[from];
        net->weight[to] = net->weight[from];
        net->size[to] = net->size[from];
        net->left[to] = net->left[from];
        net->rate[to] = net->rate[from];
    }
}

/* The least of some values, in order, each with its place. */
typedef struct {
    int count;
    int64_t seen;
    double value[FEW];
    int64_t place[FEW];
} Least;

static inline void offer(Least *least, double value, int64_t place) {
    least->seen++;
    if (least->count == FEW && value >= least->value[FEW - 1]) return;
    int at = least->count < FEW ? least->count++ : FEW - 1;
    for (; at > 0 && least->value[at - 1] > value; at--) {
        least->value[at] = least->value[at - 1];
        least->place[at] = least->place[at - 1];
    }
    least->value[at] = value;
    least->place[at] = place;
}

static int replaces(const Network *net, int64_t group, int64_t entry) {
    for (int64_t own = net->own_begin[group]; own < net->own_begin[group + 1]; own++)
        if (net->own_replaces[own] == entry) return 1;
    return 0;
}

static int64_t use(Network *net, int64_t link, int64_t used) {
    if (net->seen[link]) return used;
    net->seen[link] = 1;
    net->room[link] = net->capacity[link];
    net->used[used] = link;
    return used + 1;
}

/* The groups with a flow and the links that they cross. */
static int64_t gather(Network *net, int64_t flows, int64_t *used_links) {
    int64_t groups = 0, used = 0;
    for (int64_t row = 0; row < flows; row++) {
        int64_t group = net->group_of[net->route[row]];
        if (net->group_weight[group] == 0) net->active[groups++] = group;
        net->group_weight[group] += net->weight[row];
    }
    for (int64_t hub = 0; hub < net->hubs; hub++) net->hub_weight[hub] = 0;
    for (int64_t each = 0; each < groups; each++) {
        int64_t group = net->active[each], hub = net->hub_of[group];
        for (int64_t own = net->own_begin[group]; own < net->own_begin[group + 1]; own++)
            used = use(net, net->own_link[own], used);
        if (hub < 0 || net->hub_weight[hub] > 0) continue;
        net->hub_weight[hub] = 1;
        for (int64_t at = net->hub_begin[hub]; at < net->hub_begin[hub + 1]; at++)
            used = use(net, net->hub_link[at], used);
    }
    *used_links = used;
    return groups;
}

/* What each link could offer if all of its flows were alike. */
static void set_levels(Network *net, int64_t groups, int64_t used) {
    for (int64_t hub = 0; hub < net->hubs; hub++) {
        net->hub_weight[hub] = 0;
        for (int64_t at = net->hub_begin[hub]; at < net->hub_begin[hub + 1]; at++)
            net->replaced_weight[at] = 0;
    }
    for (int64_t each = 0; each < used; each++) {
        net->load[net->used[each]] = 0;
        net->least[net->used[each]] = INFINITY;
    }
    for (int64_t each = 0; each < groups; each++) {
        int64_t group = net->active[each];
        double weight = net->group_weight[group];
        if (net->hub_of[group] >= 0) net->hub_weight[net->hub_of[group]] += weight;
        for (int64_t own = net->own_begin[group]; own < net->own_begin[group + 1]; own++) {
            net->load[net->own_link[own]] += net->own_share[own] * weight;
            if (net->own_replaces[own] >= 0) net->replaced_weight[net->own_replaces[own]] += weight;
        }
    }
    for (int64_t hub = 0; hub < net->hubs; hub++)
        for (int64_t at = net->hub_begin[hub]; at < net->hub_begin[hub + 1]; at++)
            net->load[net->hub_link[at]] +=
                net->hub_share[at] * (net->hub_weight[hub] - net->replaced_weight[at]);
    for (int64_t each = 0; each < used; each++) {
        int64_t link = net->used[each];
        net->level[link] = net->load[link] > 0 ? net->room[link] / net->load[link] : INFINITY;
    }
}

static int crosses(const Network *net, int64_t hub, int64_t at) {
    return net->hub_weight[hub] > net->replaced_weight[at];
}

/* The least level among the hub's entries that the group does not replace (replaced_by tells). */
static double least_of_hub(const Network *net, const Least *least, int64_t hub, int64_t group) {
    for (int place = 0; place < least->count; place++)
        if (net->replaced_by[least->place[place]] != group) return least->value[place];
    double found = INFINITY;
    if (least->seen > least->count)
        for (int64_t at = net->hub_begin[hub]; at < net->hub_begin[hub + 1]; at++)
            if (net->replaced_by[at] != group && net->level[net->hub_link[at]] < found)
                found = net->level[net->hub_link[at]];
    return found;
}

/* What each group is offered: the least level on its way. */
static void set_offers(Network *net, int64_t groups, Least *least) {
    for (int64_t hub = 0; hub < net->hubs; hub++) {
        least[hub].count = 0;
        least[hub].seen = 0;
        if (net->hub_weight[hub] == 0) continue;
        for (int64_t at = net->hub_begin[hub]; at < net->hub_begin[hub + 1]; at++) {
            net->replaced_by[at] = -1;
            if (crosses(net, hub, at)) offer(&least[hub], net->level[net->hub_link[at]], at);
        }
    }
    for (int64_t each = 0; each < groups; each++) {
        int64_t group = net->active[each], hub = net->hub_of[group];
        double offered = INFINITY;
        for (int64_t own = net->own_begin[group]; own < net->own_begin[group + 1]; own++) {
            if (net->own_share[own] > 0 && net->level[net->own_link[own]] < offered)
                offered = net->level[net->own_link[own]];
            if (net->own_replaces[own] >= 0) net->replaced_by[net->own_replaces[own]] = group;
        }
        if (hub >= 0) {
            double shared = least_of_hub(net, &least[hub], hub, group);
            if (shared < offered) offered = shared;
        }
        net->offered[group] = offered;
    }
}

/* The least offer among the groups that cross this entry of their hub. */
static double least_offer(const Network *net, const Least *least, int64_t groups, int64_t hub,
                          int64_t at) {
    for (int place = 0; place < least->count; place++)
        if (net->replaced_weight[at] == 0 || !replaces(net, least->place[place], at))
            return least->value[place];
    double found = INFINITY;
    if (least->seen > least->count)
        for (int64_t each = 0; each < groups; each++) {
            int64_t group = net->active[each];
            if (net->hub_of[group] == hub && net->offered[group] < found &&
                !replaces(net, group, at))
                found = net->offered[group];
        }
    return found;
}

/* A link is full where none of its flows is limited elsewhere, to less than it offers. */
static void find_full(Network *net, int64_t groups, int64_t used, Least *least) {
    for (int64_t hub = 0; hub < net->hubs; hub++) least[hub].count = 0, least[hub].seen = 0;
    for (int64_t each = 0; each < groups; each++) {
        int64_t group = net->active[each];
        double offered = net->offered[group];
        if (net->hub_of[group] >= 0) offer(&least[net->hub_of[group]], offered, group);
        for (int64_t own = net->own_begin[group]; own < net->own_begin[group + 1]; own++) {
            int64_t link = net->own_link[own];
            if (net->own_share[own] > 0 && offered < net->least[link]) net->least[link] = offered;
        }
    }
    for (int64_t hub = 0; hub < net->hubs; hub++)
        for (int64_t at = net->hub_begin[hub]; at < net->hub_begin[hub + 1]; at++) {
            if (!crosses(net, hub, at)) continue;
            double offered = least_offer(net, &least[hub], groups, hub, at);
            int64_t link = net->hub_link[at];
            if (offered < net->least[link]) net->least[link] = offered;
        }
    for (int64_t each = 0; each < used; each++) {
        int64_t link = net->used[each];
        net->full[link] = net->load[link] > 0 && net->level[link] <= net->least[link] * SAME;
    }
}

static int meets_full(const Network *net, int64_t group, const int64_t *full, int64_t count) {
    for (int64_t own = net->own_begin[group]; own < net->own_begin[group + 1]; own++)
        if (net->own_share[own] > 0 && net->full[net->own_link[own]]) return 1;
    for (int64_t place = 0; place < count; place++)
        if (!replaces(net, group, full[place])) return 1;
    return 0;
}

/* Groups that a full link holds have their rate for good; the others go on with what is left. */
static int64_t settle_full(Network *net, int64_t groups, int64_t used) {
    int64_t *full = net->rows, kept = 0; /* rows are free while rates are shared */
    int64_t first[net->hubs + 1];
    first[0] = 0;
    for (int64_t hub = 0; hub < net->hubs; hub++) {
        int64_t count = first[hub];
        net->hub_rate[hub] = 0;
        for (int64_t at = net->hub_begin[hub]; at < net->hub_begin[hub + 1]; at++) {
            net->replaced_rate[at] = 0;
            if (crosses(net, hub, at) && net->full[net->hub_link[at]]) full[count++] = at;
        }
        first[hub + 1] = count;
    }
    for (int64_t each = 0; each < used; each++) net->load[net->used[each]] = 0;
    for (int64_t each = 0; each < groups; each++) {
        int64_t group = net->active[each], hub = net->hub_of[group];
        int64_t count = hub < 0 ? 0 : first[hub + 1] - first[hub];
        if (!meets_full(net, group, hub < 0 ? full : full + first[hub], count)) {
            net->active[each] = net->active[kept]; /* all stay listed, these in front */
            net->active[kept++] = group;
            continue;
        }
        double rate = net->offered[group] * net->group_weight[group];
        if (hub >= 0) net->hub_rate[hub] += rate;
        for (int64_t own = net->own_begin[group]; own < net->own_begin[group + 1]; own++) {
            net->load[net->own_link[own]] += net->own_share[own] * rate;
            if (net->own_replaces[own] >= 0) net->replaced_rate[net->own_replaces[own]] += rate;
        }
    }
    if (kept == groups) return 0; /* none has a link: nothing limits them */
    for (int64_t hub = 0; hub < net->hubs; hub++)
        for (int64_t at = net->hub_begin[hub]; at < net->hub_begin[hub + 1]; at++) {
            double taken = net->hub_rate[hub] - net->replaced_rate[at];
            if (taken > 0) net->load[net->hub_link[at]] += net->hub_share[at] * taken;
        }
    for (int64_t each = 0; each < used; each++) {
        int64_t link = net->used[each];
        double room = net->room[link] - net->load[link];
        net->room[link] = room > 0 ? room : 0.0; /* fmax would be a call */
    }
    return kept;
}

/* Max-min fair rates of all flows; returns the seconds until the first of them is through. */
double share(Network *net, int64_t flows) {
    int64_t used, groups = gather(net, flows, &used);
    Least least[net->hubs + 1];
    int64_t all = groups;
    while (groups) {
        set_levels(net, groups, used);
        set_offers(net, groups, least);
        find_full(net, groups, used, least);
        groups = settle_full(net, groups, used);
    }
    for (int64_t each = 0; each < used; each++) net->seen[net->used[each]] = 0;
    for (int64_t row = 0; row < flows; row++) {
        int64_t group = net->group_of[net->route[row]];
        net->rate[row] = net->offered[group];
        if (net->group_weight[group] > 0 || net->left[row] < net->least_left[group])
            net->least_left[group] = net->left[row];
        net->group_weight[group] = 0;
    }
    double next = INFINITY;
    for (int64_t each = 0; each < all; each++) {
        int64_t group = net->active[each];
        double seconds = net->least_left[group] / net->offered[group];
        if (net->offered[group] > 0 && seconds < next) next = seconds;
    }
    return next;
}
