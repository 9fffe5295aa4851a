/* All rounds of equal rings at once: `CriticalLinks.finish` of critical_links.py, in one go.

   The same sums and maxima of the same numbers, so that answers are the same to the last bit. */

#include <math.h>
#include <stdint.h>

typedef struct {
    int64_t rings, segments, longest; /* segments of a ring; ranks of the longest segment */
    const int32_t *place;             /* by segment, then by number in it; negative is padding */
    const double *behind, *ahead;     /* of the same shape, or one for all segments */
    int64_t step;                     /* from a segment's to the next: longest, or 0 */
    const double *reach;              /* by segment */
    const double *around, *paced;     /* by ring */
    double *back, *on, *heard, *after; /* room: by segment */
} Rings;

static double most(double one, double other) { return one > other ? one : other; }

/* What each segment tells the critical links before it and after it. */
static void gather(const Rings *net, const double *ready) {
    int64_t all = net->rings * net->segments, longest = net->longest;
    for (int64_t each = 0; each < all; each++) {
        const int32_t *place = net->place + each * longest;
        const double *behind = net->behind + each * net->step;
        const double *ahead = net->ahead + each * net->step;
        double back = -INFINITY, on = -INFINITY;
        for (int64_t number = 0; number < longest && place[number] >= 0; number++) {
            double here = ready[place[number]];
            back = most(back, here - behind[number]);
            on = most(on, here - ahead[number]);
        }
        net->back[each] = back;
        net->on[each] = on;
    }
}

/* The latest that each critical link of a ring hears of, both ways round, and then all rounds. */
static void hear_all_round(const Rings *net, int64_t ring) {
    int64_t count = net->segments, begin = ring * count;
    const double *reach = net->reach + begin, around = net->around[ring];
    double *heard = net->heard + begin, *after = net->after + begin, *latest = net->on + begin;
    for (int64_t each = 0; each < count; each++) {
        int64_t next = each + 1 < count ? each + 1 : 0;
        heard[each] = most(net->on[begin + each], net->back[begin + next]);
    }
    double so_far = -INFINITY;
    for (int64_t each = 0; each < count; each++) so_far = most(so_far, heard[each] + reach[each]);
    for (int64_t each = 0; each < count; each++) {
        double twice = reach[each] + around;
        so_far = most(so_far, heard[each] + twice);
        latest[each] = so_far - twice;
    }
    so_far = -INFINITY;
    for (int64_t each = count - 1; each >= 0; each--)
        so_far = most(so_far, heard[each] - (reach[each] + around));
    for (int64_t each = count - 1; each >= 0; each--) {
        so_far = most(so_far, heard[each] - reach[each]);
        after[each] = most(latest[each], so_far + reach[each]) + net->paced[ring];
    }
}

/* When each place is through that is there at `ready` (s), into `finished`. */
void rings_finish(const Rings *net, const double *ready, double *finished) {
    gather(net, ready);
    for (int64_t ring = 0; ring < net->rings; ring++) {
        hear_all_round(net, ring);
        const double *after = net->after + ring * net->segments;
        double before = after[net->segments - 1];
        for (int64_t each = 0; each < net->segments; each++) {
            int64_t at = ring * net->segments + each;
            const int32_t *place = net->place + at * net->longest;
            const double *behind = net->behind + at * net->step;
            const double *ahead = net->ahead + at * net->step;
            for (int64_t number = 0; number < net->longest && place[number] >= 0; number++)
                finished[place[number]] =
                    most(before - behind[number], after[each] - ahead[number]);
            before = after[each];
        }
    }
}
