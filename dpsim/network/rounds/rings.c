/* All rounds of equal rings at once: `CriticalLinks.finish` of critical_links.py, in one go.

   The same sums and maxima of the same numbers, so that answers are the same to the last bit. */

#include <math.h>
#include <stdint.h>

typedef struct {
    int64_t rings, segments, longest; /* segments of a ring; ranks of the longest segment */
    const int64_t *place;             /* by number in the segment, then by segment of all rings */
    const uint8_t *there;             /* of the same shape; null where nothing is padding */
    const double *behind, *ahead;     /* of the same shape, or one for all segments */
    int64_t behind_step, ahead_step;  /* from a segment's to the next: 1, or 0 */
    const double *reach;              /* by segment */
    const double *around, *paced;     /* by ring */
    double *back, *on, *heard, *after, *latest; /* room: by segment, the last twice that of a ring */
} Rings;

static double most(double one, double other) { return one > other ? one : other; }

/* What each segment tells the critical links before it and after it. */
static void gather(const Rings *net, const double *ready) {
    int64_t all = net->rings * net->segments;
    for (int64_t each = 0; each < all; each++) net->back[each] = net->on[each] = -INFINITY;
    for (int64_t number = 0; number < net->longest; number++) {
        const int64_t *place = net->place + number * all;
        const double *behind = net->behind + number * (net->behind_step ? all : 1);
        const double *ahead = net->ahead + number * (net->ahead_step ? all : 1);
        for (int64_t each = 0; each < all; each++) {
            double here = ready[place[each]];
            net->back[each] = most(net->back[each], here - behind[each * net->behind_step]);
            net->on[each] = most(net->on[each], here - ahead[each * net->ahead_step]);
        }
    }
}

/* The latest that each critical link of a ring hears of, both ways round, and then all rounds. */
static void hear_all_round(const Rings *net, int64_t ring) {
    int64_t count = net->segments, begin = ring * count;
    const double *reach = net->reach + begin, around = net->around[ring];
    double *heard = net->heard + begin, *latest = net->latest, *after = net->after + begin;
    for (int64_t each = 0; each < count; each++)
        heard[each] = most(net->on[begin + each], net->back[begin + (each + 1) % count]);
    double so_far = -INFINITY;
    for (int64_t each = 0; each < 2 * count; each++) {
        int64_t link = each % count;
        double twice = each < count ? reach[link] : reach[link] + around;
        so_far = most(so_far, heard[link] + twice);
        if (each >= count) latest[link] = so_far - twice;
    }
    so_far = -INFINITY;
    for (int64_t each = 2 * count - 1; each >= 0; each--) {
        int64_t link = each % count;
        double twice = each < count ? reach[link] : reach[link] + around;
        so_far = most(so_far, heard[link] - twice);
        if (each < count) after[link] = most(latest[link], so_far + reach[link]) + net->paced[ring];
    }
}

/* When each place is through that is there at `ready` (s), into `finished`. */
void rings_finish(const Rings *net, const double *ready, double *finished) {
    int64_t all = net->rings * net->segments;
    gather(net, ready);
    for (int64_t ring = 0; ring < net->rings; ring++) hear_all_round(net, ring);
    for (int64_t ring = 0; ring < net->rings; ring++)
        for (int64_t each = 0; each < net->segments; each++) {
            int64_t at = ring * net->segments + each;
            net->heard[at] = net->after[each ? at - 1 : at + net->segments - 1];
        }
    for (int64_t number = 0; number < net->longest; number++) {
        const int64_t *place = net->place + number * all;
        const uint8_t *there = net->there ? net->there + number * all : 0;
        const double *behind = net->behind + number * (net->behind_step ? all : 1);
        const double *ahead = net->ahead + number * (net->ahead_step ? all : 1);
        for (int64_t each = 0; each < all; each++) {
            if (there && !there[each]) continue;
            double before = net->heard[each] - behind[each * net->behind_step];
            finished[place[each]] = most(before, net->after[each] - ahead[each * net->ahead_step]);
        }
    }
}
