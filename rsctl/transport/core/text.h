// Formatting of numbers and of peers' texts for messages.
#pragma once

#include <cstdint>
#include <cstdio>
#include <string>

namespace rsctl {

inline std::string seconds(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%g s", value);
  return text;
}

// A peer's text without control characters. Invalid UTF-8 is left to the caller.
inline std::string printable(const uint8_t* text, size_t size) {
  std::string shown(reinterpret_cast<const char*>(text), size);
  for (char& c : shown)
    if (static_cast<uint8_t>(c) < 0x20 || c == 0x7f) c = '?';
  return shown;
}

}  // namespace rsctl
