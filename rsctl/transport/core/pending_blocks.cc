#include "pending_blocks.h"

#include <algorithm>

#include "sums.h"

namespace rsctl {

void Lateness::add(double late) {
  constexpr auto relaxed = std::memory_order_relaxed;  // one thread writes
  blocks.store(blocks.load(relaxed) + 1, relaxed);
  seconds.store(seconds.load(relaxed) + late, relaxed);
  most.store(std::max(most.load(relaxed), late), relaxed);
}

uint32_t PendingBlock::missing(uint32_t world) const {
  for (uint32_t rank = next_rank_; rank < world; ++rank)
    if (!has(rank)) return rank;
  return kNoRank;
}

void PendingBlock::add(uint32_t rank, const uint8_t* block) {
  if (rank != next_rank_) {
    early_.emplace(rank, std::vector<uint8_t>(block, block + header_.payload));
    return;
  }
  add_next(block);
  for (auto held = early_.find(next_rank_); held != early_.end();
       held = early_.find(next_rank_)) {
    add_next(held->second.data());
    early_.erase(held);
  }
}

void PendingBlock::add_next(const uint8_t* block) {
  if (next_rank_ == 0) {
    sum_.resize(count());
    widen(sum_.data(), block, count(), header_.dtype);
  } else {
    rsctl::add(sum_.data(), block, count(), header_.dtype);
  }
  ++next_rank_;
}

Bytes PendingBlock::take_result(uint32_t world) {
  auto result = std::make_shared<std::vector<uint8_t>>(header_.payload);
  if (header_.op == kAvg) average(sum_.data(), sum_.size(), world);
  narrow(result->data(), sum_.data(), sum_.size(), header_.dtype);
  return result;
}

PendingBlocks::PendingBlocks(uint32_t world, uint32_t window)
    : world_(world), window_(window), under_way_(world, 0), lateness_(new Lateness[world]) {}

Bytes PendingBlocks::add(const Header& header, const uint8_t* block) {
  const uint32_t rank = header.rank;
  const double time = now();
  const auto key = std::make_pair(header.sequence, header.chunk);
  auto found = blocks_.find(key);
  if (found == blocks_.end()) found = blocks_.emplace(key, PendingBlock(header, time)).first;
  PendingBlock& pending = found->second;
  check_same(pending, header);
  if (++under_way_[rank] > window_)
    throw EpochFailed(Code::kLimit, rank,
                  "rank " + std::to_string(rank) + " sends more than " + std::to_string(window_) +
                      " blocks at once");
  lateness_[rank].add(time - pending.since());
  pending.add(rank, block);
  if (pending.added() < world_) return nullptr;
  Bytes result = pending.take_result(world_);
  blocks_.erase(found);
  return result;
}

bool PendingBlocks::lacks(uint32_t rank, uint64_t* sequence) const {
  for (const auto& entry : blocks_) {
    if (entry.second.has(rank)) continue;
    *sequence = entry.second.header().sequence;
    return true;
  }
  return false;
}

void PendingBlocks::check_same(const PendingBlock& pending, const Header& header) const {
  const Header& first = pending.header();
  const std::string rank = "rank " + std::to_string(header.rank);
  if (!first.same_operation(header))
    throw EpochFailed(Code::kMismatch, header.rank,
                  "the workers disagree about operation " + std::to_string(header.sequence) +
                      ": rank " + std::to_string(first.rank) + " has " + first.describe() + ", " +
                      rank + " has " + header.describe());
  if (pending.has(header.rank))
    throw EpochFailed(Code::kProtocol, header.rank, rank + " sends a block twice");
}

}  // namespace rsctl
