// Loops that the compiler vectorises, once for every processor of this kind and once for those with
// wider registers.
#pragma once

#include <cstdint>
#include <cstring>

#if defined(__x86_64__)
#define RSCTL_WIDE __attribute__((target("avx2")))
#define RSCTL_HAS_WIDE (__builtin_cpu_supports("avx2"))
#else
#define RSCTL_WIDE
#define RSCTL_HAS_WIDE false
#endif
#define RSCTL_INLINE inline __attribute__((always_inline))

// Makes `name_Type` of the template `name_loop`: `declared` are its parameters, `given` their names.
#define RSCTL_VERSIONS(name, Type, declared, given)                       \
  RSCTL_WIDE void name##_##Type##_wide declared { name##_loop<Type> given; } \
  void name##_##Type##_plain declared { name##_loop<Type> given; }        \
  void name##_##Type declared {                                           \
    static const bool has_wide = RSCTL_HAS_WIDE;                          \
    if (has_wide)                                                         \
      name##_##Type##_wide given;                                         \
    else                                                                  \
      name##_##Type##_plain given;                                        \
  }

namespace rsctl {

RSCTL_INLINE float as_float(uint32_t bits) {
  float value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

RSCTL_INLINE uint32_t as_bits(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  return bits;
}

}  // namespace rsctl
