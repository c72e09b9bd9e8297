// Sums in fp32 of blocks of every dtype, bit for bit what sums.py computes.
#pragma once

#include <cstddef>
#include <cstdint>

namespace rsctl {

// `count` numbers, whole groups of those with 8 bits; `block` need not be aligned.
void widen(float* sum, const uint8_t* block, size_t count, uint8_t dtype);
void add(float* sum, const uint8_t* block, size_t count, uint8_t dtype);
void average(float* sum, size_t count, uint32_t ranks);
void narrow(uint8_t* block, const float* sum, size_t count, uint8_t dtype);

// Ordinary rounding and denormals for this thread, whatever its creator had set.
void set_plain_arithmetic();

// The same while it exists, on a thread that belongs to the caller.
class PlainArithmetic {
 public:
  PlainArithmetic();
  ~PlainArithmetic();

 private:
  unsigned before_ = 0;
};

}  // namespace rsctl
