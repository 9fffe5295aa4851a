/* Rounds one after the other: `TimedRound.step` of timed_round.py, again and again.

   The same sums and maxima of the same numbers, so that answers are the same to the last bit. */

#include <stdint.h>

typedef struct {
    int64_t rounds, ranks;
    const int64_t *first;                  /* by round, its first transfer; one more for the end */
    const int32_t *source, *destination;   /* by transfer: ranks */
    const double *seconds;                 /* by transfer */
    const double *overhead, *reduction;    /* s by round and rank */
    double *room;                          /* by rank */
} Chain;

static double later(double one, double other) { return one > other ? one : other; }

/* When each rank is through, in place of when it was ready (s). */
void chain_step(const Chain *chain, double *ready) {
    double *posted = chain->room;
    for (int64_t round = 0; round < chain->rounds; round++) {
        const double *overhead = chain->overhead + round * chain->ranks;
        const double *reduction = chain->reduction + round * chain->ranks;
        for (int64_t rank = 0; rank < chain->ranks; rank++)
            posted[rank] = ready[rank] + overhead[rank];
        for (int64_t each = chain->first[round]; each < chain->first[round + 1]; each++) {
            int32_t from = chain->source[each], to = chain->destination[each];
            double end = later(posted[from], posted[to]) + chain->seconds[each];
            ready[to] = later(ready[to], end);
            ready[from] = later(ready[from], end);
        }
        for (int64_t rank = 0; rank < chain->ranks; rank++) ready[rank] += reduction[rank];
    }
}
