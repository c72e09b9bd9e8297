#include "operations.h"

#include <algorithm>
#include <cstring>

namespace rsctl {
namespace {

enum State : uint8_t { kWaiting, kSent, kDone };

}  // namespace

uint32_t Operation::chunk_at(uint64_t nth, uint32_t row, uint32_t rank, uint32_t world) const {
  const uint64_t begin = nth / row * row;
  const uint64_t length = std::min<uint64_t>(row, chunks - begin);
  const uint64_t turn = uint64_t{rank} * length / world;
  return static_cast<uint32_t>(begin + (turn + nth - begin) % length);
}

Header Operation::block_header(uint32_t chunk, uint64_t completed) const {
  Header block = header;
  const uint64_t begin = uint64_t{chunk} * header.chunk_bytes;
  block.chunk = chunk;
  block.payload = static_cast<uint32_t>(
      std::min<uint64_t>(header.chunk_bytes, header.total - begin));
  block.completed = completed;
  return block;
}

void Operations::begin(void* data, uint64_t bytes, uint32_t chunk_bytes, uint8_t dtype,
                       uint8_t op) {
  const uint64_t chunks = chunks_of(bytes, chunk_bytes);
  Operation operation{{}, static_cast<uint8_t*>(data), chunks, chunks, 0, {}};
  operation.states.assign(chunks, kWaiting);
  Header& header = operation.header;
  header.kind = kData;
  header.dtype = dtype;
  header.op = op;
  header.rank = membership_.rank;
  header.epoch = membership_.epoch;
  header.job = membership_.job;
  header.sequence = ++submitted_;
  header.total = bytes;
  header.chunk_bytes = chunk_bytes;
  unfinished_.emplace(submitted_, std::move(operation));
  unsent_.push_back(submitted_);
}

bool Operations::next(Operation** operation, uint32_t* chunk, uint32_t* server) {
  if (unsent_.empty()) return false;
  // Unsent blocks have no result, so their operation is unfinished.
  *operation = &unfinished_.at(unsent_.front());
  const auto row = static_cast<uint32_t>(slots_.size());
  *chunk = (*operation)->chunk_at((*operation)->position, row, membership_.rank, membership_.world);
  *server = server_of(unsent_.front(), *chunk);
  return true;
}

void Operations::sent(Operation& operation, uint32_t chunk) {
  operation.states[chunk] = kSent;
  if (++operation.position == operation.chunks) unsent_.pop_front();
}

bool Operations::receive(const Header& result, const uint8_t* payload, uint32_t server) {
  const auto found = unfinished_.find(result.sequence);
  if (found == unfinished_.end() || server_of(result.sequence, result.chunk) != server)
    throw FrameError("a result for operation " + std::to_string(result.sequence) +
                     " came unasked");
  Operation& operation = found->second;
  if (!operation.header.same_operation(result))
    throw FrameError("a result of " + result.describe() + " for " + operation.header.describe());
  if (operation.states[result.chunk] != kSent)
    throw FrameError("block " + std::to_string(result.chunk) + " of operation " +
                     std::to_string(result.sequence) + " came unasked");
  operation.states[result.chunk] = kDone;
  if (result.payload) std::memcpy(operation.block(result.chunk), payload, result.payload);
  if (--operation.left) return false;
  unfinished_.erase(found);
  return true;
}

}  // namespace rsctl
