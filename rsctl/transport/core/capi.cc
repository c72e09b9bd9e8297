#include <algorithm>
#include <cstring>
#include <new>

#include "client.h"
#include "groups.h"
#include "reducer.h"
#include "rsctl_core.h"
#include "sums.h"
#include "tls.h"

#define RSCTL_EXPORT extern "C" __attribute__((visibility("default")))

using rsctl::Client;
using rsctl::Code;
using rsctl::Reducer;
using rsctl::Tls;
using rsctl::TlsContext;

namespace {

// No exception may leave through the C interface.
template <typename Function>
auto guarded(Function function) -> decltype(function()) {
  try {
    return function();
  } catch (...) {
    return {};
  }
}

void copy_text(char* to, const std::string& text) {
  const size_t size = std::min<size_t>(text.size(), RSCTL_TEXT_BYTES - 1);
  std::memcpy(to, text.data(), size);
  to[size] = 0;
}

Reducer* reducer_of(void* handle) { return static_cast<Reducer*>(handle); }
Client* client_of(void* handle) { return static_cast<Client*>(handle); }
Tls* tls_of(void* handle) { return static_cast<Tls*>(handle); }

}  // namespace

RSCTL_EXPORT uint32_t rsctl_core_abi(void) { return RSCTL_CORE_ABI; }

RSCTL_EXPORT void* rsctl_reducer_start(const rsctl_group* group) {
  return guarded([&]() -> void* { return new Reducer(*group); });
}

RSCTL_EXPORT int rsctl_reducer_adopt(void* reducer, int fd, void* tls, uint32_t rank) {
  std::unique_ptr<Tls> owned(tls_of(tls));
  return guarded([&] { return reducer_of(reducer)->adopt(fd, std::move(owned), rank), 1; });
}

RSCTL_EXPORT int rsctl_reducer_ending(void* reducer, uint32_t* code, char* text) {
  return guarded([&] {
    std::string message;
    const bool ended = reducer_of(reducer)->outcome(code, &message);
    copy_text(text, message);
    return int{ended};
  });
}

RSCTL_EXPORT void rsctl_reducer_read(void* reducer, rsctl_reducer_stats* stats, double* late_mean,
                                     double* late_most) {
  Reducer& self = *reducer_of(reducer);
  *stats = self.stats();
  for (uint32_t rank = 0; rank < self.world(); ++rank) {
    const rsctl::Lateness& late = self.lateness(rank);
    const uint64_t blocks = std::max<uint64_t>(1, late.blocks.load());
    late_mean[rank] = late.seconds.load() / static_cast<double>(blocks);
    late_most[rank] = late.most.load();
  }
}

RSCTL_EXPORT void rsctl_reducer_stop(void* reducer, uint32_t code, const char* message) {
  guarded([&] { return reducer_of(reducer)->stop(static_cast<Code>(code), message), 1; });
}

RSCTL_EXPORT void rsctl_reducer_free(void* reducer) { delete reducer_of(reducer); }

RSCTL_EXPORT void* rsctl_client_start(const rsctl_membership* membership, const uint32_t* slots,
                                      const uint32_t* windows, const int* fds,
                                      void* const* tls) {
  return guarded([&]() -> void* { return new Client(*membership, slots, windows, fds, tls); });
}

RSCTL_EXPORT uint64_t rsctl_client_submit(void* client, void* data, uint64_t bytes,
                                          uint32_t chunk_bytes, uint8_t dtype, uint8_t op) {
  return guarded(
      [&] { return client_of(client)->submit(data, bytes, chunk_bytes, dtype, op); });
}

RSCTL_EXPORT int rsctl_client_wait(void* client, uint64_t sequence, double timeout) {
  return guarded([&] { return int{client_of(client)->wait(sequence, timeout)}; });
}

RSCTL_EXPORT uint64_t rsctl_client_completed(void* client) {
  return client_of(client)->completed();
}

RSCTL_EXPORT uint64_t rsctl_client_committed(void* client) {
  return client_of(client)->committed();
}

RSCTL_EXPORT int rsctl_client_failure(void* client, rsctl_failure* failure) {
  return guarded([&] {
    rsctl::Failure found{};
    if (!client_of(client)->failure(&found)) return 0;
    failure->code = static_cast<uint32_t>(found.code);
    failure->server = found.server;
    failure->rank = found.rank;
    failure->remote = found.remote;
    failure->blamed = found.blamed;
    failure->sequence = found.sequence;
    copy_text(failure->detail, found.detail);
    return 1;
  });
}

RSCTL_EXPORT void rsctl_client_read(void* client, rsctl_client_stats* stats) {
  *stats = client_of(client)->stats();
}

RSCTL_EXPORT void rsctl_client_set_timeout(void* client, double timeout) {
  client_of(client)->set_timeout(timeout);
}

RSCTL_EXPORT void rsctl_client_stop(void* client) {
  guarded([&] { return client_of(client)->stop(), 1; });
}

RSCTL_EXPORT void rsctl_client_free(void* client) { delete client_of(client); }

RSCTL_EXPORT const char* rsctl_tls_names(void) { return rsctl::openssl_names(); }

RSCTL_EXPORT void rsctl_tls_use(void* const* functions) { rsctl::use_openssl(functions); }

RSCTL_EXPORT void* rsctl_tls_context_start(const uint8_t* key, uint64_t key_bytes,
                                           const uint8_t* certificate,
                                           uint64_t certificate_bytes, int is_reducer) {
  return guarded([&]() -> void* {
    return new TlsContext(key, key_bytes, certificate, certificate_bytes, is_reducer != 0);
  });
}

RSCTL_EXPORT void rsctl_tls_context_free(void* context) {
  delete static_cast<TlsContext*>(context);
}

RSCTL_EXPORT void* rsctl_tls_start(const void* context) {
  return guarded(
      [&]() -> void* { return new Tls(*static_cast<const TlsContext*>(context)); });
}

RSCTL_EXPORT void rsctl_tls_free(void* tls) { delete tls_of(tls); }

RSCTL_EXPORT int rsctl_tls_handshake(void* tls, char* reason) {
  std::string text;
  Tls::Step step = Tls::Step::kFailed;
  guarded([&] { return step = tls_of(tls)->handshake(&text), 1; });
  copy_text(reason, text);
  return static_cast<int>(step);
}

RSCTL_EXPORT uint32_t rsctl_tls_binding(void* tls, uint8_t* to, uint32_t room) {
  return guarded([&] { return static_cast<uint32_t>(tls_of(tls)->binding(to, room)); });
}

RSCTL_EXPORT int rsctl_tls_put(void* tls, const uint8_t* ciphertext, uint64_t bytes) {
  return guarded([&] { return tls_of(tls)->put(ciphertext, bytes), 1; });
}

RSCTL_EXPORT uint64_t rsctl_tls_take(void* tls, uint8_t* ciphertext, uint64_t room) {
  return guarded([&] {
    size_t size;
    const uint8_t* pending = tls_of(tls)->pending(&size);
    size = std::min<size_t>(size, room);
    std::memcpy(ciphertext, pending, size);
    tls_of(tls)->sent(size);
    return uint64_t{size};
  });
}

RSCTL_EXPORT int rsctl_tls_write(void* tls, const uint8_t* plaintext, uint64_t bytes) {
  return guarded([&] { return tls_of(tls)->write(plaintext, bytes), 1; });
}

RSCTL_EXPORT int64_t rsctl_tls_read(void* tls, uint8_t* plaintext, uint64_t room) {
  int64_t count = -1;
  guarded([&] { return count = static_cast<int64_t>(tls_of(tls)->read(plaintext, room)), 1; });
  return count;
}

RSCTL_EXPORT void rsctl_tls_finish(void* tls) {
  guarded([&] { return tls_of(tls)->finish(), 1; });
}

RSCTL_EXPORT void rsctl_reduce_blocks(const uint8_t* blocks, uint32_t ranks, uint64_t count,
                                      uint8_t dtype, uint8_t op, uint8_t* result) {
  const rsctl::PlainArithmetic plain;
  guarded([&] {
    const uint64_t bytes = count / rsctl::item_numbers(dtype) * rsctl::item_bytes(dtype);
    std::vector<float> sum(count);
    rsctl::widen(sum.data(), blocks, count, dtype);
    for (uint32_t rank = 1; rank < ranks; ++rank)
      rsctl::add(sum.data(), blocks + rank * bytes, count, dtype);
    if (op == rsctl::kAvg) rsctl::average(sum.data(), count, ranks);
    rsctl::narrow(result, sum.data(), count, dtype);
    return 1;
  });
}

RSCTL_EXPORT void rsctl_pack(uint8_t* block, const float* numbers, float* residual, uint64_t count,
                             uint8_t dtype) {
  const rsctl::PlainArithmetic plain;
  rsctl::pack(block, numbers, residual, count, dtype);
}

RSCTL_EXPORT void rsctl_unpack(float* numbers, const uint8_t* block, uint64_t count,
                               uint8_t dtype) {
  const rsctl::PlainArithmetic plain;
  rsctl::unpack(numbers, block, count, dtype);
}
