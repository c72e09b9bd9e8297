// The blocks that a reducer is adding up. The Python counterpart is pending_blocks.py.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "connection.h"

namespace rsctl {

// A worker has failed or broken the protocol, which ends the epoch for all.
struct EpochFailed : std::runtime_error {
  EpochFailed(Code why, uint32_t whose, const std::string& text)
      : std::runtime_error(text), code(why), rank(whose) {}
  Code code;
  uint32_t rank;
};

// How long after the first rank's block a rank's own came, in seconds.
struct Lateness {
  std::atomic<uint64_t> blocks{0};
  std::atomic<double> seconds{0};
  std::atomic<double> most{0};
  void add(double late);
};

class PendingBlock {
 public:
  PendingBlock(const Header& first, double since) : header_(first), since_(since) {}

  const Header& header() const { return header_; }
  double since() const { return since_; }
  uint32_t added() const { return next_rank_; }
  bool has(uint32_t rank) const { return rank < next_rank_ || early_.count(rank) != 0; }
  uint32_t missing(uint32_t world) const;
  void add(uint32_t rank, const uint8_t* block);
  // The reduced block; the sum is used up.
  Bytes take_result(uint32_t world);

 private:
  void add_next(const uint8_t* block);
  size_t count() const {
    return size_t{header_.payload} / item_bytes(header_.dtype) * item_numbers(header_.dtype);
  }

  Header header_;
  double since_;
  uint32_t next_rank_ = 0;
  std::vector<float> sum_;
  std::map<uint32_t, std::vector<uint8_t>> early_;
};

// All blocks under way. Bounded, since a worker has at most `window` in it.
class PendingBlocks {
 public:
  PendingBlocks(uint32_t world, uint32_t window);

  // Takes a worker's block; the result if it was the last one missing. Throws EpochFailed.
  Bytes add(const Header& header, const uint8_t* block);
  void delivered(uint32_t rank) { --under_way_[rank]; }
  const PendingBlock* oldest() const { return blocks_.empty() ? nullptr : &blocks_.begin()->second; }
  bool lacks(uint32_t rank, uint64_t* sequence) const;
  const Lateness& lateness(uint32_t rank) const { return lateness_[rank]; }
  void clear() { blocks_.clear(); }

 private:
  void check_same(const PendingBlock& pending, const Header& header) const;

  uint32_t world_;
  uint32_t window_;
  std::map<std::pair<uint64_t, uint32_t>, PendingBlock> blocks_;
  std::vector<uint32_t> under_way_;
  std::unique_ptr<Lateness[]> lateness_;
};

}  // namespace rsctl
