// A ring all-reduce by SimGrid: ring_by_simgrid RANKS BYTES RATE LATENCY, in B/s and s.
//
// Max-min fair sharing (CM02) without corrections for TCP, an actor a rank; prints the finish (s).

#include <cstdio>
#include <string>
#include <vector>

#include <simgrid/s4u.hpp>

namespace sg = simgrid::s4u;

static void work(int rank, int ranks, const std::vector<long>* chunks)
{
  auto* to_next = sg::Mailbox::by_name("to" + std::to_string((rank + 1) % ranks));
  auto* own = sg::Mailbox::by_name("to" + std::to_string(rank));
  int chunk = 0; // what a message carries is of no interest, but must not be null
  for (int turn = 0; turn < 2 * (ranks - 1); ++turn) {
    const int passed = ((rank - turn) % ranks + ranks) % ranks;
    sg::CommPtr sent = to_next->put_async(&chunk, (*chunks)[passed]);
    own->get<int>();
    // A round ends when the rank has both sent and received, as in a schedule.
    sent->wait();
  }
}

int main(int argc, char* argv[])
{
  sg::Engine engine(&argc, argv);
  for (const char* option : {"network/model:CM02", "network/TCP-gamma:0", "network/crosstraffic:0",
                             "network/bandwidth-factor:1", "network/latency-factor:1", "network/weight-S:0"})
    sg::Engine::set_config(option);
  const int ranks = std::stoi(argv[1]);
  const long elements = std::stol(argv[2]) / 4;
  const double rate = std::stod(argv[3]), latency = std::stod(argv[4]);

  auto* zone = sg::create_full_zone("all");
  std::vector<sg::Host*> hosts;
  std::vector<sg::Link*> out, into;
  for (int rank = 0; rank < ranks; ++rank) {
    hosts.push_back(zone->create_host("rank" + std::to_string(rank), 1e9));
    out.push_back(zone->create_link("out" + std::to_string(rank), rate)->set_latency(latency)->seal());
    // A route's latency is the sum of its links': the first link has all of it.
    into.push_back(zone->create_link("in" + std::to_string(rank), rate)->set_latency(0)->seal());
  }
  for (int rank = 0; rank < ranks; ++rank) {
    const int next = (rank + 1) % ranks;
    zone->add_route(hosts[rank]->get_netpoint(), hosts[next]->get_netpoint(), nullptr, nullptr,
                    {sg::LinkInRoute(out[rank]), sg::LinkInRoute(into[next])}, false);
  }
  zone->seal();

  // Elements of four bytes; the first chunks have one more if the vector does not divide evenly.
  std::vector<long> chunks(ranks);
  for (int rank = 0; rank < ranks; ++rank)
    chunks[rank] = 4 * (elements / ranks + (rank < elements % ranks));
  for (int rank = 0; rank < ranks; ++rank)
    sg::Actor::create("rank" + std::to_string(rank), hosts[rank], work, rank, ranks, &chunks);
  engine.run();
  std::printf("%.17g\n", sg::Engine::get_clock());
}
