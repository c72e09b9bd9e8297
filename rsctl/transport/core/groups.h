// Groups of 256 numbers of 8 bits with one fp32 scale, as compressed gradients travel. The Python
// counterpart is groups.py.
#pragma once

#include <cstddef>
#include <cstdint>

namespace rsctl {

constexpr size_t kGroupNumbers = 256;
constexpr size_t kGroupBytes = sizeof(float) + kGroupNumbers;

// `groups` whole groups; `block` need not be aligned.
void widen_groups(float* sum, const uint8_t* block, size_t groups, uint8_t dtype);
void add_groups(float* sum, const uint8_t* block, size_t groups, uint8_t dtype);
// Rounds up or down by a hash of the number and its place, so that the mean error is zero.
void narrow_groups(uint8_t* block, const float* sum, size_t groups, uint8_t dtype);

// A worker's side: adds `residual` to `count` numbers, rounds to nearest, and keeps the error in
// `residual`. The last group is filled up with zeros.
void pack(uint8_t* block, const float* numbers, float* residual, size_t count, uint8_t dtype);
void unpack(float* numbers, const uint8_t* block, size_t count, uint8_t dtype);

}  // namespace rsctl
