// The C interface of the core, for ctypes. Handshakes are done before: sockets come here opened.
#pragma once

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define RSCTL_CORE_ABI 5
#define RSCTL_TEXT_BYTES 2048

uint32_t rsctl_core_abi(void);

typedef struct {
  uint32_t world;
  uint32_t frame;
  uint32_t window;
  uint32_t epoch;
  uint64_t job;
  double silence;  // seconds
} rsctl_group;

typedef struct {
  uint64_t bytes_in;
  uint64_t bytes_out;
  uint64_t blocks;
  uint32_t members;
} rsctl_reducer_stats;

// All calls that may fail for want of memory or descriptors return NULL or 0.
void* rsctl_reducer_start(const rsctl_group* group);
// Takes the descriptor over, and the TLS connection on it, or NULL.
int rsctl_reducer_adopt(void* reducer, int fd, void* tls, uint32_t rank);
// 1 when it has ended: `code` is 0 after everyone's goodbye; `text` has RSCTL_TEXT_BYTES.
int rsctl_reducer_ending(void* reducer, uint32_t* code, char* text);
// `late_mean` and `late_most`: `world` numbers each, in seconds.
void rsctl_reducer_read(void* reducer, rsctl_reducer_stats* stats, double* late_mean,
                        double* late_most);
// Waits until it has ended.
void rsctl_reducer_stop(void* reducer, uint32_t code, const char* message);
void rsctl_reducer_free(void* reducer);

typedef struct {
  uint32_t rank;
  uint32_t world;
  uint32_t servers;
  uint32_t row;  // slots in a row
  uint32_t frame;
  uint32_t epoch;
  uint64_t job;
  double silence;  // seconds
  double timeout;  // seconds
} rsctl_membership;

typedef struct {
  uint64_t bytes_in;
  uint64_t bytes_out;
  uint64_t operations;
  uint64_t reduced;
  double busy;     // seconds
  double stalled;  // seconds
} rsctl_client_stats;

typedef struct {
  uint32_t code;
  uint32_t server;
  uint32_t rank;
  uint32_t remote;
  uint32_t blamed;  // 1 + the reducer that failed, by the one that passed it on; 0 if it named none
  uint64_t sequence;
  char detail[RSCTL_TEXT_BYTES];
} rsctl_failure;

// `slots`: `row` numbers of reducers; `windows`, `fds` and `tls`, which may be NULL, one for each
// reducer. Takes fds and TLS connections over.
void* rsctl_client_start(const rsctl_membership* membership, const uint32_t* slots,
                         const uint32_t* windows, const int* fds, void* const* tls);
// The memory must stay until the operation is finished or the client freed. Returns its sequence.
uint64_t rsctl_client_submit(void* client, void* data, uint64_t bytes, uint32_t chunk_bytes,
                             uint8_t dtype, uint8_t op);
// 1 when the operation is finished; 0 after `timeout` seconds, or when the client has failed.
int rsctl_client_wait(void* client, uint64_t sequence, double timeout);
// Seconds without progress after which it fails, in place of the membership's.
void rsctl_client_set_timeout(void* client, double timeout);
uint64_t rsctl_client_completed(void* client);
uint64_t rsctl_client_committed(void* client);
int rsctl_client_failure(void* client, rsctl_failure* failure);  // 1 if it has failed
void rsctl_client_read(void* client, rsctl_client_stats* stats);
void rsctl_client_stop(void* client);  // waits until it has ended
void rsctl_client_free(void* client);

// TLS by the functions of OpenSSL with these names, separated by spaces, at addresses in their order.
const char* rsctl_tls_names(void);
void rsctl_tls_use(void* const* functions);
// NULL if key and certificate, both DER, are not a pair.
void* rsctl_tls_context_start(const uint8_t* key, uint64_t key_bytes, const uint8_t* certificate,
                              uint64_t certificate_bytes, int is_reducer);
void rsctl_tls_context_free(void* context);
// A connection, for one thread at a time; NULL without memory.
void* rsctl_tls_start(const void* context);
void rsctl_tls_free(void* tls);
// 0 when it is done, 1 if it needs more of the peer, 2 if it has failed, 3 for another certificate;
// `reason` has RSCTL_TEXT_BYTES.
int rsctl_tls_handshake(void* tls, char* reason);
uint32_t rsctl_tls_binding(void* tls, uint8_t* to, uint32_t room);
int rsctl_tls_put(void* tls, const uint8_t* ciphertext, uint64_t bytes);  // 0 if that failed
uint64_t rsctl_tls_take(void* tls, uint8_t* ciphertext, uint64_t room);   // 0 if there is no more
int rsctl_tls_write(void* tls, const uint8_t* plaintext, uint64_t bytes);  // 0 if that failed
int64_t rsctl_tls_read(void* tls, uint8_t* plaintext, uint64_t room);  // 0: it needs more; -1: the end
void rsctl_tls_finish(void* tls);

// A worker's compression: `count` numbers become groups of 8 bits with a scale and back. `residual`
// has as many numbers: it is added before, and keeps what rounding took away.
void rsctl_pack(uint8_t* block, const float* numbers, float* residual, uint64_t count,
                uint8_t dtype);
void rsctl_unpack(float* numbers, const uint8_t* block, uint64_t count, uint8_t dtype);

// What the reducer would make of `ranks` blocks of `count` numbers, one after another.
// Workers that have lost their reducers add by it, too.
void rsctl_reduce_blocks(const uint8_t* blocks, uint32_t ranks, uint64_t count, uint8_t dtype,
                         uint8_t op, uint8_t* result);

#ifdef __cplusplus
}
#endif
