// Reducers and workers of one process over socket pairs, for the sanitizers: operations of many
// sizes from two threads a worker, leaving, killing a reducer, stopping under way. `stress ROUNDS
// [FOLDER]`: with key.der and certificate.der of a folder, every second round has TLS.
#include <dlfcn.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "../frames.h"
#include "../rsctl_core.h"

namespace {

constexpr uint32_t kWorkers = 3, kServers = 2, kFrame = 4096, kWindow = 3;
constexpr int kOperations = 40;

enum class Outcome { kLeave, kStopReducer, kStopWorker };

void require(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "broken: %s\n", what);
  std::abort();
}

// The two sides of TLS; none without a folder.
struct Contexts {
  void* worker = nullptr;
  void* reducer = nullptr;

  explicit Contexts(const char* folder) {
    if (!folder) return;
    void* library = dlopen("libssl.so.3", RTLD_NOW);
    if (!library) library = dlopen("libssl.so.1.1", RTLD_NOW);
    require(library, "OpenSSL");
    std::istringstream names(rsctl_tls_names());
    std::vector<void*> functions;
    for (std::string name; names >> name;) functions.push_back(dlsym(library, name.c_str()));
    for (void* function : functions) require(function, "OpenSSL's functions");
    rsctl_tls_use(functions.data());
    const auto key = read(folder, "/key.der"), certificate = read(folder, "/certificate.der");
    const auto start = [&](int side) {
      void* made = rsctl_tls_context_start(key.data(), key.size(), certificate.data(),
                                           certificate.size(), side);
      require(made, "a context");
      return made;
    };
    require(!rsctl_tls_context_start(key.data(), key.size() - 1, certificate.data(),
                                     certificate.size(), 1), "half a key is none");
    worker = start(0);
    reducer = start(1);
  }

  ~Contexts() {
    if (!worker) return;
    rsctl_tls_context_free(worker);
    rsctl_tls_context_free(reducer);
  }

  static std::vector<uint8_t> read(const std::string& folder, const char* name) {
    std::ifstream file(folder + name, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  }
};

// The ends of a connection after its handshake.
struct Ends {
  void* worker;
  void* reducer;

  explicit Ends(const Contexts* contexts)
      : worker(contexts ? rsctl_tls_start(contexts->worker) : nullptr),
        reducer(contexts ? rsctl_tls_start(contexts->reducer) : nullptr) {
    if (!contexts) return;
    char reason[RSCTL_TEXT_BYTES];
    int steps[2] = {1, 1};
    for (int round = 0; round < 4; ++round) {
      steps[0] = rsctl_tls_handshake(worker, reason);
      carry(worker, reducer);
      steps[1] = rsctl_tls_handshake(reducer, reason);
      carry(reducer, worker);
    }
    require(steps[0] == 0 && steps[1] == 0, reason);
    uint8_t bindings[2][64];
    const uint32_t size = rsctl_tls_binding(worker, bindings[0], 64);
    require(size > 0 && rsctl_tls_binding(reducer, bindings[1], 64) == size &&
            !std::memcmp(bindings[0], bindings[1], size), "both have the binding");
  }

  static void carry(void* from, void* to) {
    uint8_t bytes[1000];
    while (const uint64_t size = rsctl_tls_take(from, bytes, sizeof bytes))
      require(rsctl_tls_put(to, bytes, size), "room");
  }
};

struct Pool {
  const Contexts* contexts;
  std::vector<void*> reducers;
  std::vector<void*> clients;

  explicit Pool(const Contexts* tls) : contexts(tls) {
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
    void* tls[kServers];
    for (uint32_t i = 0; i < kServers; ++i) {
      int pair[2];
      require(socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0, "a socket pair");
      mine[i] = pair[0];
      const Ends ends(contexts);
      tls[i] = ends.worker;
      require(rsctl_reducer_adopt(reducers[i], pair[1], ends.reducer, rank), "adoption");
    }
    const rsctl_membership membership{rank, kWorkers, kServers, kServers, kFrame, 0, 7, 5.0, 20.0};
    const uint32_t slots[] = {0, 1}, windows[] = {kWindow, kWindow};
    return rsctl_client_start(&membership, slots, windows, mine, tls);
  }
};

// Waits for its operations in one thread while another reads the counters.
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

void play(Outcome outcome, const Contexts* contexts) {
  Pool pool(contexts);
  std::vector<std::thread> threads;
  for (uint32_t rank = 0; rank < kWorkers; ++rank)
    threads.emplace_back(work, pool.clients[rank], rank, outcome == Outcome::kLeave);
  double late[2 * kWorkers];
  rsctl_reducer_stats stats;
  rsctl_reducer_read(pool.reducers[0], &stats, late, late + kWorkers);
  if (outcome == Outcome::kStopReducer) rsctl_reducer_stop(pool.reducers[1], 10, "stopped");
  if (outcome == Outcome::kStopWorker) rsctl_client_stop(pool.clients[0]);
  for (auto& thread : threads) thread.join();
  char text[RSCTL_TEXT_BYTES];
  uint32_t code;
  for (void* reducer : pool.reducers) {
    rsctl_reducer_ending(reducer, &code, text);
    rsctl_reducer_read(reducer, &stats, late, late + kWorkers);
  }
}

// How a reducer of one worker ends that gets these bytes, half of them after a while; 0 if in order.
uint32_t end_after(const std::vector<rsctl::Header>& headers, const char* text) {
  constexpr double kSilence = 0.2;
  const rsctl_group group{1, kFrame, kWindow, 0, 7, kSilence};
  void* reducer = rsctl_reducer_start(&group);
  int pair[2];
  require(socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0, "a socket pair");
  require(rsctl_reducer_adopt(reducer, pair[1], nullptr, 0), "adoption");
  std::vector<uint8_t> bytes;
  for (const rsctl::Header& header : headers) {
    const auto* start = reinterpret_cast<const uint8_t*>(&header);
    bytes.insert(bytes.end(), start, start + sizeof header);
    bytes.insert(bytes.end(), header.payload, '.');
  }
  // In sixteen pieces, each before the silence is over, and all of them after it.
  for (size_t i = 0; i < 16; ++i) {
    const size_t from = bytes.size() * i / 16, to = bytes.size() * (i + 1) / 16;
    if (send(pair[0], bytes.data() + from, to - from, MSG_NOSIGNAL) < 0) break;
    std::this_thread::sleep_for(std::chrono::duration<double>(kSilence / 8));
  }
  uint32_t code = 0;
  char outcome[RSCTL_TEXT_BYTES] = "";
  while (!rsctl_reducer_ending(reducer, &code, outcome)) std::this_thread::yield();
  require(std::strstr(outcome, text), outcome);
  rsctl_reducer_free(reducer);
  close(pair[0]);
  return code;
}

rsctl::Header frame_of(uint8_t kind, uint64_t sequence, uint64_t completed) {
  rsctl::Header header;
  header.kind = kind;
  header.rank = 0;
  header.job = 7;
  header.sequence = sequence;
  header.completed = completed;
  if (kind == rsctl::kError) header.payload = 3;
  if (kind != rsctl::kData) return header;
  header.dtype = rsctl::kFp32;
  header.op = rsctl::kSum;
  header.total = header.chunk_bytes = header.payload = kFrame;
  return header;
}

// A peer that breaks TLS at every place: its records are cut, changed and followed by others.
void break_tls(const Contexts& contexts) {
  for (uint32_t at = 0; at < 40; ++at) {
    const Ends ends(&contexts);
    const rsctl_group group{1, kFrame, kWindow, 0, 7, 5.0};
    void* reducer = rsctl_reducer_start(&group);
    int pair[2];
    require(socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0, "a socket pair");
    const rsctl::Header beat = frame_of(rsctl::kHeartbeat, 0, 0);
    require(rsctl_tls_write(ends.worker, reinterpret_cast<const uint8_t*>(&beat), sizeof beat), "write");
    uint8_t record[256];
    const uint64_t size = rsctl_tls_take(ends.worker, record, sizeof record);
    if (at % 2) record[at] ^= static_cast<uint8_t>(1 + at);
    require(rsctl_reducer_adopt(reducer, pair[1], ends.reducer, 0), "adoption");
    require(send(pair[0], record, at % 2 ? size : size - at - 1, MSG_NOSIGNAL) > 0, "send");
    shutdown(pair[0], SHUT_WR);
    uint32_t code = 0;
    char outcome[RSCTL_TEXT_BYTES] = "";
    while (!rsctl_reducer_ending(reducer, &code, outcome)) std::this_thread::yield();
    require(code == 3 && std::strstr(outcome, "rank 0 was lost: "), outcome);
    rsctl_reducer_free(reducer);
    rsctl_tls_free(ends.worker);
    close(pair[0]);
  }
}

// Peers that are slow, and that say what cannot be.
void hear() {
  using rsctl::kData, rsctl::kError, rsctl::kGoodbye, rsctl::kHeartbeat;
  require(end_after({frame_of(kData, 1, 0), frame_of(kGoodbye, 0, 1)}, "all workers") == 0, "slow");
  require(end_after({frame_of(kError, 0, 0)}, "gave up") == 5, "an unknown reason is no clean end");
  require(end_after({frame_of(kData, 2, 2)}, "has finished") == 5, "a block too late");
  require(end_after({frame_of(kHeartbeat, 0, 9), frame_of(kData, 1, 0)}, "has finished") == 5,
          "a block that was finished");
}

}  // namespace

int main(int count, char** arguments) {
  const int rounds = count > 1 ? std::atoi(arguments[1]) : 5;
  const Contexts contexts(count > 2 ? arguments[2] : nullptr);
  for (int round = 0; round < rounds; ++round)
    for (Outcome outcome : {Outcome::kLeave, Outcome::kStopReducer, Outcome::kStopWorker})
      play(outcome, contexts.worker && round % 2 ? &contexts : nullptr);
  hear();
  if (contexts.worker) break_tls(contexts);
  std::printf("%d rounds: no fault\n", rounds);
  return 0;
}
