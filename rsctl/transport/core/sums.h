// Sums in fp32 of fp32, bf16 and fp16 blocks, bit for bit what sums.py computes.
#pragma once

#include <cstddef>
#include <cstdint>

namespace rsctl {

// `count` numbers; `block` need not be aligned.
void widen(float* sum, const uint8_t* block, size_t count, uint8_t dtype);
void add(float* sum, const uint8_t* block, size_t count, uint8_t dtype);
void average(float* sum, size_t count, uint32_t ranks);
void narrow(uint8_t* block, const float* sum, size_t count, uint8_t dtype);

// Ordinary rounding and denormals for this thread, whatever its creator had set.
void set_plain_arithmetic();

}  // namespace rsctl
