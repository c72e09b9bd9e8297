// The C interface of the core, for ctypes. Handshakes are done before: sockets come here opened.
#pragma once

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define RSCTL_CORE_ABI 4
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
// Takes the descriptor over.
int rsctl_reducer_adopt(void* reducer, int fd, uint32_t rank);
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

// `slots`: `row` numbers of reducers; `windows` and `fds`: one for each reducer. Takes fds over.
void* rsctl_client_start(const rsctl_membership* membership, const uint32_t* slots,
                         const uint32_t* windows, const int* fds);
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
