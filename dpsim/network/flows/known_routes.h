/* Flows under way over routes that are known beforehand.

   Flows by equal routes are a group: they have one rate, so that a clock of bytes tells how far all
   of them are. The routes of a hub are alike but for a few links: the hub's links hold for all its
   groups, and a group's own entries say where it differs.

   A cell is groups with the links that only they have entries of their own for: what leads to one
   node, and away from it. Cells of a kind can be exchanged for one another, so that those with as
   many flows in each of their groups have equal rates: one of them stands for all. */

#ifndef KNOWN_ROUTES_H
#define KNOWN_ROUTES_H

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
    int64_t hub, cell;           /* -1: none */
    int64_t first, place, changed, open;
    double weight, rate, times;  /* how many cells it stands for; the rate is that of all of them */
} Group;

/* A group with flows, of the rate of the group `like`, which stands for it. */
typedef struct {
    int64_t number, like;
    double rate, clock, least_target, least_due;
} Moving;

typedef struct {
    int64_t on_begin, on_end;       /* groups with an entry of their own for it */
    int64_t under_begin, under_end; /* hubs that it is a link of */
    int64_t state;
    double capacity, load, room;
} Link;

typedef struct {
    int64_t member_begin, open;
    double weight, rate;
} Hub;

/* `chief` stands for it (-1: not known now). Those of one chief are a chain from it on, and `alike`
   counts them for the chief. */
typedef struct {
    int64_t group_begin, group_end, link_begin, link_end, kind;
    int64_t chief, before, after, place, alike;
} Cell;

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
    Flow *flow;
    Group *group;
    Link *link;
    Hub *hub;
    Cell *cell;
    Moving *moving;
    int64_t *changed, *chiefs;             /* groups that have changed; cells that stand for others */
    int64_t *groups, *links, *open_member; /* what a change reaches; a hub's that are open */
    Offer *heap;
    int64_t *ended_call, *ended_number;
    int64_t flows, actives, changes, hubs, cells, chief_count;
} Network;

/* Set the rates of groups that are joined to a change: those of `like` of all that move. */
void fill_links(Network *net);

#endif
