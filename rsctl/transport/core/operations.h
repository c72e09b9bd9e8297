// The operations of a client that are not finished, block by block. The Python counterpart is operations.py.
#pragma once

#include <deque>
#include <map>
#include <vector>

#include "frames.h"
#include "rsctl_core.h"

namespace rsctl {

// One all-reduce of a piece of memory, in place.
struct Operation {
  Header header;  // of its blocks
  uint8_t* data;
  uint64_t chunks;
  uint64_t left;
  uint64_t position = 0;  // how many blocks have been sent
  std::vector<uint8_t> states;

  // The block in this place of the order in which this rank sends.
  uint32_t chunk_at(uint64_t nth, uint32_t row, uint32_t rank, uint32_t world) const;
  uint8_t* block(uint32_t chunk) const { return data + uint64_t{chunk} * header.chunk_bytes; }
  Header block_header(uint32_t chunk, uint64_t completed) const;
};

class Operations {
 public:
  Operations(const rsctl_membership& membership, std::vector<uint32_t> slots)
      : membership_(membership), slots_(std::move(slots)) {}

  uint64_t oldest() const { return unfinished_.empty() ? 0 : unfinished_.begin()->first; }
  uint64_t completed() const { return unfinished_.empty() ? submitted_ : oldest() - 1; }
  void begin(void* data, uint64_t bytes, uint32_t chunk_bytes, uint8_t dtype, uint8_t op);
  // The next block in the one order over all reducers; false when all are sent.
  bool next(Operation** operation, uint32_t* chunk, uint32_t* server);
  void sent(Operation& operation, uint32_t chunk);
  // Takes a result; whether it finished its operation. Throws FrameError.
  bool receive(const Header& result, const uint8_t* payload, uint32_t server);

 private:
  uint32_t server_of(uint64_t sequence, uint32_t chunk) const {
    return slots_[(sequence - 1 + chunk) % slots_.size()];
  }

  const rsctl_membership membership_;
  const std::vector<uint32_t> slots_;
  std::map<uint64_t, Operation> unfinished_;
  std::deque<uint64_t> unsent_;
  uint64_t submitted_ = 0;
};

}  // namespace rsctl
