/* Flows that come, move and end, and the seconds until the next one ends. */

#include "known_routes.h"

static void change(Network *net, int64_t number) {
    if (net->group[number].changed) return;
    net->group[number].changed = 1;
    net->changed[net->changes++] = number;
}

static Moving *moving(Network *net, int64_t number) {
    return &net->moving[net->group[number].place];
}

static void begin_group(Network *net, int64_t number) {
    net->group[number].first = -1;
    net->group[number].place = net->actives;
    net->moving[net->actives++] = (Moving){
        .number = number, .like = number, .least_target = INFINITY, .least_due = INFINITY};
}

static void end_group(Network *net, int64_t number) {
    int64_t place = net->group[number].place;
    net->moving[place] = net->moving[--net->actives];
    net->group[net->moving[place].number].place = place;
}

static void count_in(Moving *group, const Flow *flow) {
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
    flow->target = moving(net, of)->clock + left;
    /* But for nearly nothing, and for what a clock of so many bytes rounds off. */
    flow->due = flow->target * (1 - 1e-15) - 1e-12 * size;
    flow->before = -1;
    flow->after = group->first;
    if (group->first >= 0) net->flow[group->first].before = row;
    group->first = row;
    group->weight += weight;
    count_in(moving(net, of), flow);
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
    Moving *group = moving(net, number);
    group->least_target = group->least_due = INFINITY;
    for (int64_t row = net->group[number].first; row >= 0; row = net->flow[row].after)
        count_in(group, &net->flow[row]);
    if (net->group[number].first < 0) end_group(net, number);
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
    for (int64_t each = 0; each < net->actives; each++)
        net->moving[each].clock += net->moving[each].rate * seconds;
}

/* Let all flows move until `now`. Those that are through, but for what rounding leaves at such a
   clock, are dropped and listed. */
int64_t flows_end(Network *net, double seconds, double now) {
    int64_t found = 0;
    flows_move(net, seconds);
    /* Backwards: where a group ends, the last one takes its place. */
    for (int64_t each = net->actives - 1; each >= 0; each--) {
        Moving group = net->moving[each];
        double reached = group.clock + group.rate * (now * 1e-15);
        if (group.least_due > reached) continue;
        for (int64_t row = net->group[group.number].first, after; row >= 0; row = after) {
            const Flow *flow = &net->flow[row];
            after = flow->after;
            if (flow->due > reached) continue;
            net->ended_call[found] = flow->call;
            net->ended_number[found++] = flow->number;
            take_out(net, row);
            if (after == net->flows) after = row; /* it was the last, which has moved */
        }
        count_anew(net, group.number);
    }
    return found;
}

/* Max-min fair rates of what is joined to a change; returns the seconds until the first of all
   flows is through. */
double flows_share(Network *net) {
    fill_links(net);
    double next = INFINITY;
    for (int64_t each = 0; each < net->actives; each++) {
        Moving *group = &net->moving[each];
        double left = group->least_target - group->clock;
        group->rate = net->group[group->like].rate;
        /* What takes no longer than others so far; a division takes as long as all of this. */
        if (group->rate > 0 && !(left >= group->rate * next)) next = left / group->rate;
    }
    return next;
}
