#include "sums.h"

#include <cstring>

#include "frames.h"
#include "groups.h"
#include "versions.h"

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

namespace rsctl {
namespace {

struct Fp32 {
  using Item = uint32_t;
  static RSCTL_INLINE float wide(uint32_t item) { return as_float(item); }
  static RSCTL_INLINE uint32_t narrow(float value) { return as_bits(value); }
};

struct Bf16 {
  using Item = uint16_t;
  static RSCTL_INLINE float wide(uint16_t item) { return as_float(uint32_t{item} << 16); }
  static RSCTL_INLINE uint16_t narrow(float value) {
    const uint32_t bits = as_bits(value);
    const uint32_t rounded = (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
    const uint32_t nan = bits >> 16 | 0x40;
    return static_cast<uint16_t>((bits & 0x7fffffff) > 0x7f800000 ? nan : rounded);
  }
};

struct Fp16 {
  using Item = uint16_t;
  static RSCTL_INLINE float wide(uint16_t item) {
    // Multiplying moves the exponent and makes subnormal numbers normal, exactly.
    const uint32_t magnitude = uint32_t{item & 0x7fffu} << 13;
    const uint32_t scaled = as_bits(as_float(magnitude) * as_float(239u << 23));
    const uint32_t special = (item & 0x7c00u) == 0x7c00u ? 255u << 23 : 0;
    return as_float(scaled | special | uint32_t{item & 0x8000u} << 16);
  }
  static RSCTL_INLINE uint16_t narrow(float value) {
    const uint32_t bits = as_bits(value);
    const uint32_t magnitude = bits & 0x7fffffff;
    const uint32_t normal = (magnitude - (112u << 23) + 0xfff + (magnitude >> 13 & 1)) >> 13;
    // Adding 0.5 makes the processor round at the last place of a subnormal number.
    const uint32_t subnormal = as_bits(as_float(magnitude) + 0.5f) - as_bits(0.5f);
    const uint32_t nan = 0x7e00 | (magnitude >> 13 & 0x3ff);
    uint32_t half = magnitude < 0x38800000 ? subnormal : normal;
    half = magnitude >= 0x47800000 ? 0x7c00 : half;
    half = magnitude > 0x7f800000 ? nan : half;
    return static_cast<uint16_t>(half | (bits >> 16 & 0x8000));
  }
};

template <typename Type>
RSCTL_INLINE typename Type::Item load(const uint8_t* block, size_t i) {
  typename Type::Item item;
  std::memcpy(&item, block + i * sizeof item, sizeof item);
  return item;
}

template <typename Type>
RSCTL_INLINE void widen_loop(float* sum, const uint8_t* block, size_t count) {
  for (size_t i = 0; i < count; ++i) sum[i] = Type::wide(load<Type>(block, i));
}

template <typename Type>
RSCTL_INLINE void add_loop(float* sum, const uint8_t* block, size_t count) {
  for (size_t i = 0; i < count; ++i) sum[i] += Type::wide(load<Type>(block, i));
}

template <typename Type>
RSCTL_INLINE void narrow_loop(uint8_t* block, const float* sum, size_t count) {
  for (size_t i = 0; i < count; ++i) {
    const typename Type::Item item = Type::narrow(sum[i]);
    std::memcpy(block + i * sizeof item, &item, sizeof item);
  }
}

#define RSCTL_ALL_VERSIONS(Type)                                                          \
  RSCTL_VERSIONS(widen, Type, (float* to, const uint8_t* from, size_t n), (to, from, n))  \
  RSCTL_VERSIONS(add, Type, (float* to, const uint8_t* from, size_t n), (to, from, n))    \
  RSCTL_VERSIONS(narrow, Type, (uint8_t* to, const float* from, size_t n), (to, from, n))

RSCTL_ALL_VERSIONS(Fp32)
RSCTL_ALL_VERSIONS(Bf16)
RSCTL_ALL_VERSIONS(Fp16)

}  // namespace

void widen(float* sum, const uint8_t* block, size_t count, uint8_t dtype) {
  if (is_grouped(dtype)) return widen_groups(sum, block, count / kGroupNumbers, dtype);
  (dtype == kFp32 ? widen_Fp32 : dtype == kBf16 ? widen_Bf16 : widen_Fp16)(sum, block, count);
}

void add(float* sum, const uint8_t* block, size_t count, uint8_t dtype) {
  if (is_grouped(dtype)) return add_groups(sum, block, count / kGroupNumbers, dtype);
  (dtype == kFp32 ? add_Fp32 : dtype == kBf16 ? add_Bf16 : add_Fp16)(sum, block, count);
}

void average(float* sum, size_t count, uint32_t ranks) {
  const float divisor = static_cast<float>(ranks);
  for (size_t i = 0; i < count; ++i) sum[i] /= divisor;
}

void narrow(uint8_t* block, const float* sum, size_t count, uint8_t dtype) {
  if (is_grouped(dtype)) return narrow_groups(block, sum, count / kGroupNumbers, dtype);
  (dtype == kFp32 ? narrow_Fp32 : dtype == kBf16 ? narrow_Bf16 : narrow_Fp16)(block, sum, count);
}

void set_plain_arithmetic() {
#if defined(__x86_64__)
  _mm_setcsr(0x1f80);
#endif
}

PlainArithmetic::PlainArithmetic() {
#if defined(__x86_64__)
  before_ = _mm_getcsr();
#endif
  set_plain_arithmetic();
}

PlainArithmetic::~PlainArithmetic() {
#if defined(__x86_64__)
  _mm_setcsr(before_);
#endif
}

}  // namespace rsctl
