// Reducers and workers of one process over socket pairs, for the sanitizers: operations of many
// sizes from two threads a worker, leaving, killing a reducer, stopping under way.
#include <sys/socket.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <thread>
#include <vector>

#include "../rsctl_core.h"

namespace {

constexpr uint32_t kWorkers = 3, kServers = 2, kFrame = 4096, kWindow = 3;
constexpr int kOperations = 40;

enum class Ending { kLeave, kStopReducer, kStopWorker };

void require(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "broken: %s\n", what);
  std::abort();
}

struct Pool {
  std::vector<void*> reducers;
  std::vector<void*> clients;

  Pool() {
    const rsctl_group group{kWorkers, kFrame, kWindow, 0, 7, 5.0};
    for (uint32_t i = 0; i < kServers; ++i) reducers.push_back(rsctl_reducer_start(&group));
    for (uint32_t rank = 0; rank < kWorkers; ++rank) clients.push_back(connect(rank));
  }

  ~Pool() {
    for (void* client : clients) rsctl_client_free(client);
    for (void* reducer : reducers) rsctl_reducer_free(reducer);
  }

  void* connect(uint32_t rank) {
    int mine[kServers];
    for (uint32_t i = 0; i < kServers; ++i) {
      int pair[2];
      require(socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0, "a socket pair");
      mine[i] = pair[0];
      require(rsctl_reducer_adopt(reducers[i], pair[1], rank), "adoption");
    }
    const rsctl_membership membership{rank, kWorkers, kServers, kServers, kFrame, 0, 7, 5.0, 20.0};
    const uint32_t slots[] = {0, 1}, windows[] = {kWindow, kWindow};
    return rsctl_client_start(&membership, slots, windows, mine);
  }
};

// Waits for its operations in one thread while another looks at the counters.
void work(void* client, uint32_t rank, bool to_the_end) {
  std::vector<std::vector<float>> data;
  for (int i = 0; i < kOperations; ++i) data.emplace_back(i * i * 37 % 9001, float(rank + 1));
  std::thread watcher([client] {
    rsctl_client_stats stats;
    rsctl_failure failure;
    while (rsctl_client_completed(client) < kOperations && !rsctl_client_failure(client, &failure)) {
      rsctl_client_read(client, &stats);
      rsctl_client_wait(client, rsctl_client_completed(client) + 1, 0.01);
    }
  });
  uint64_t last = 0;
  for (auto& numbers : data)
    last = rsctl_client_submit(client, numbers.data(), numbers.size() * 4, 4096, 1, 1);
  const bool finished = rsctl_client_wait(client, last, 30);
  watcher.join();
  if (to_the_end) {
    require(finished, "all operations finish");
    for (auto& numbers : data)
      for (float number : numbers) require(number == 6, "the sum is right");
  }
  // Nothing may touch the data after this.
  rsctl_client_stop(client);
}

void play(Ending ending) {
  Pool pool;
  std::vector<std::thread> threads;
  for (uint32_t rank = 0; rank < kWorkers; ++rank)
    threads.emplace_back(work, pool.clients[rank], rank, ending == Ending::kLeave);
  double late[2 * kWorkers];
  rsctl_reducer_stats stats;
  rsctl_reducer_read(pool.reducers[0], &stats, late, late + kWorkers);
  if (ending == Ending::kStopReducer) rsctl_reducer_stop(pool.reducers[1], 10, "stopped");
  if (ending == Ending::kStopWorker) rsctl_client_stop(pool.clients[0]);
  for (auto& thread : threads) thread.join();
  char text[RSCTL_TEXT_BYTES];
  uint32_t code;
  for (void* reducer : pool.reducers) {
    rsctl_reducer_ending(reducer, &code, text);
    rsctl_reducer_read(reducer, &stats, late, late + kWorkers);
  }
}

}  // namespace

int main(int count, char** arguments) {
  const int rounds = count > 1 ? std::atoi(arguments[1]) : 5;
  for (int round = 0; round < rounds; ++round)
    for (Ending ending : {Ending::kLeave, Ending::kStopReducer, Ending::kStopWorker}) play(ending);
  std::printf("%d rounds: no fault\n", rounds);
  return 0;
}
