#include "groups.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "frames.h"
#include "versions.h"

namespace rsctl {
namespace {

// Below it the inverse of a scale overflows; such a group travels as zeros.
constexpr float kSmallest = 1e-30f;

RSCTL_INLINE uint32_t hash(uint32_t bits, uint32_t place) {
  uint32_t h = bits ^ place * 0x9e3779b9u;
  h = (h ^ h >> 16) * 0x7feb352du;
  h = (h ^ h >> 15) * 0x846ca68bu;
  return h ^ h >> 16;
}

struct Int8 {
  static constexpr float kLimit = 127;
  static RSCTL_INLINE float wide(uint8_t item) {
    return static_cast<float>(static_cast<int8_t>(item));
  }
  static RSCTL_INLINE uint8_t nearest(float value) {
    // Adding 1.5 * 2^23 leaves no place for a fraction: the processor rounds, ties to even.
    return static_cast<uint8_t>(as_bits(value + 12582912.0f) - as_bits(12582912.0f));
  }
  static RSCTL_INLINE uint8_t dithered(float value, uint32_t random) {
    const float part = static_cast<float>(random >> 16) * (1.0f / 65536);
    const int32_t rounded = static_cast<int32_t>(value + 128.0f + part) - 128;
    const int32_t low = rounded < -127 ? -127 : rounded;  // the product may exceed the limit a bit
    return static_cast<uint8_t>(low > 127 ? 127 : low);
  }
};

// 4 bits of exponent and 3 of mantissa, without infinity (E4M3FN).
struct Fp8 {
  static constexpr float kLimit = 448;
  static RSCTL_INLINE float wide(uint8_t item) {
    // Multiplying moves the exponent and makes subnormal numbers normal, exactly.
    const uint32_t scaled = as_bits(as_float((item & 0x7fu) << 20) * as_float(247u << 23));
    return as_float(scaled | (item & 0x80u) << 24);
  }
  static RSCTL_INLINE uint8_t nearest(float value) {
    const uint32_t bits = as_bits(value), magnitude = bits & 0x7fffffff;
    const uint32_t normal = (magnitude + 0x7ffff + (magnitude >> 20 & 1)) >> 20;
    const uint32_t small =
        as_bits(as_float(magnitude) * 512 + 12582912.0f) - as_bits(12582912.0f);
    return joined(bits, magnitude, normal, small);
  }
  static RSCTL_INLINE uint8_t dithered(float value, uint32_t random) {
    const uint32_t bits = as_bits(value), magnitude = bits & 0x7fffffff;
    const uint32_t normal = (magnitude + (random >> 12)) >> 20;
    const float part = static_cast<float>(random >> 16) * (1.0f / 65536);
    const float scaled = as_float(magnitude & small_mask(magnitude)) * 512;
    const auto small = static_cast<uint32_t>(static_cast<int32_t>(scaled + part));
    return joined(bits, magnitude, normal, small);
  }

 private:
  static RSCTL_INLINE uint8_t joined(uint32_t bits, uint32_t magnitude, uint32_t normal,
                                     uint32_t small) {
    const uint32_t is_small = small_mask(magnitude);
    const uint32_t code = (small & is_small) | ((normal - (120u << 3)) & ~is_small);
    return static_cast<uint8_t>((code > 0x7e ? 0x7e : code) | (bits >> 24 & 0x80));
  }
  // All bits for a subnormal number. A choice between results would be a branch to the compiler.
  static RSCTL_INLINE uint32_t small_mask(uint32_t magnitude) {
    return 0u - static_cast<uint32_t>(magnitude < 0x3c800000);
  }
};

// How the numbers of a group become codes: `inverse` is 0 for a group that travels as zeros.
struct Scale {
  float scale;
  float inverse;
};

template <typename Type>
RSCTL_INLINE Scale scale_of(const float* numbers) {
  int32_t most = 0;  // the order of positive floats is that of their bits, with NaN at the end
  for (size_t i = 0; i < kGroupNumbers; ++i) {
    const auto magnitude = static_cast<int32_t>(as_bits(numbers[i]) & 0x7fffffff);
    most = magnitude > most ? magnitude : most;
  }
  const float largest = as_float(static_cast<uint32_t>(most));
  if (most >= 0x7f800000) return {std::numeric_limits<float>::quiet_NaN(), 0};
  if (largest < kSmallest) return {0, 0};
  return {largest / Type::kLimit, Type::kLimit / largest};
}

RSCTL_INLINE float scale_at(const uint8_t* group) {
  float scale;
  std::memcpy(&scale, group, sizeof scale);
  return scale;
}

template <typename Type>
RSCTL_INLINE void widen_loop(float* sum, const uint8_t* block, size_t groups) {
  for (; groups-- > 0; sum += kGroupNumbers, block += kGroupBytes) {
    const float scale = scale_at(block);
    for (size_t i = 0; i < kGroupNumbers; ++i)
      sum[i] = Type::wide(block[sizeof scale + i]) * scale;
  }
}

template <typename Type>
RSCTL_INLINE void add_loop(float* sum, const uint8_t* block, size_t groups) {
  for (; groups-- > 0; sum += kGroupNumbers, block += kGroupBytes) {
    const float scale = scale_at(block);
    for (size_t i = 0; i < kGroupNumbers; ++i)
      sum[i] += Type::wide(block[sizeof scale + i]) * scale;
  }
}

template <typename Type>
RSCTL_INLINE void narrow_loop(uint8_t* block, const float* sum, size_t groups) {
  for (; groups-- > 0; sum += kGroupNumbers, block += kGroupBytes) {
    const Scale by = scale_of<Type>(sum);
    std::memcpy(block, &by.scale, sizeof by.scale);
    uint8_t* items = block + sizeof by.scale;
    if (by.inverse == 0) {
      std::memset(items, 0, kGroupNumbers);
      continue;
    }
    uint8_t codes[kGroupNumbers];  // of its own, since bytes that may alias are not vectorised
    for (uint32_t i = 0; i < kGroupNumbers; ++i)
      codes[i] = Type::dithered(sum[i] * by.inverse, hash(as_bits(sum[i]), i));
    std::memcpy(items, codes, sizeof codes);
  }
}

template <typename Type>
RSCTL_INLINE void pack_group(uint8_t* block, const float* numbers, float* residual) {
  float whole[kGroupNumbers];
  for (size_t i = 0; i < kGroupNumbers; ++i) whole[i] = numbers[i] + residual[i];
  const Scale by = scale_of<Type>(whole);
  std::memcpy(block, &by.scale, sizeof by.scale);
  uint8_t* items = block + sizeof by.scale;
  if (by.inverse == 0) {
    std::memset(items, 0, kGroupNumbers);
    // What is too small to travel stays; beside NaN or infinity the step counts for nothing.
    if (by.scale == 0) std::memcpy(residual, whole, sizeof whole);
    return;
  }
  uint8_t codes[kGroupNumbers];
  for (size_t i = 0; i < kGroupNumbers; ++i)
    codes[i] = Type::nearest(whole[i] * by.inverse);
  for (size_t i = 0; i < kGroupNumbers; ++i)
    residual[i] = whole[i] - Type::wide(codes[i]) * by.scale;
  std::memcpy(items, codes, sizeof codes);
}

template <typename Type>
RSCTL_INLINE void pack_loop(uint8_t* block, const float* numbers, float* residual, size_t count) {
  for (; count >= kGroupNumbers; count -= kGroupNumbers) {
    pack_group<Type>(block, numbers, residual);
    block += kGroupBytes, numbers += kGroupNumbers, residual += kGroupNumbers;
  }
  if (count == 0) return;
  float rest[kGroupNumbers] = {}, error[kGroupNumbers] = {};
  std::copy_n(numbers, count, rest);
  std::copy_n(residual, count, error);
  pack_group<Type>(block, rest, error);
  std::copy_n(error, count, residual);
}

#define RSCTL_GROUP_VERSIONS(Type)                                                 \
  RSCTL_VERSIONS(widen, Type, (float* to, const uint8_t* from, size_t n), (to, from, n)) \
  RSCTL_VERSIONS(add, Type, (float* to, const uint8_t* from, size_t n), (to, from, n))   \
  RSCTL_VERSIONS(narrow, Type, (uint8_t* to, const float* from, size_t n), (to, from, n)) \
  RSCTL_VERSIONS(pack, Type, (uint8_t* to, const float* from, float* rest, size_t n),     \
                 (to, from, rest, n))

RSCTL_GROUP_VERSIONS(Int8)
RSCTL_GROUP_VERSIONS(Fp8)

}  // namespace

void widen_groups(float* sum, const uint8_t* block, size_t groups, uint8_t dtype) {
  (dtype == kInt8 ? widen_Int8 : widen_Fp8)(sum, block, groups);
}

void add_groups(float* sum, const uint8_t* block, size_t groups, uint8_t dtype) {
  (dtype == kInt8 ? add_Int8 : add_Fp8)(sum, block, groups);
}

void narrow_groups(uint8_t* block, const float* sum, size_t groups, uint8_t dtype) {
  (dtype == kInt8 ? narrow_Int8 : narrow_Fp8)(block, sum, groups);
}

void pack(uint8_t* block, const float* numbers, float* residual, size_t count, uint8_t dtype) {
  (dtype == kInt8 ? pack_Int8 : pack_Fp8)(block, numbers, residual, count);
}

void unpack(float* numbers, const uint8_t* block, size_t count, uint8_t dtype) {
  const size_t whole = count / kGroupNumbers, rest = count % kGroupNumbers;
  widen_groups(numbers, block, whole, dtype);
  if (rest == 0) return;
  float last[kGroupNumbers];
  widen_groups(last, block + whole * kGroupBytes, 1, dtype);
  std::copy_n(last, rest, numbers + whole * kGroupNumbers);
}

}  // namespace rsctl
