// Frames of the wire protocol: header, checks, reader. See ../PROTOCOL.md; the Python counterpart is frames.py.
#pragma once

#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

namespace rsctl {

constexpr uint32_t kMagic = 0x54435352;
constexpr uint8_t kVersion = 1;
constexpr uint32_t kNoRank = 0xffffffff;
constexpr uint64_t kMaxTotal = uint64_t{1} << 40;
constexpr uint32_t kMaxErrorBytes = 1024;

enum Kind : uint8_t { kData = 5, kResult = 6, kHeartbeat = 7, kError = 8, kGoodbye = 9 };
enum Dtype : uint8_t { kFp32 = 1, kBf16 = 2, kFp16 = 3, kInt8 = 4, kFp8 = 5 };
enum Op : uint8_t { kSum = 1, kAvg = 2 };

enum class Code : uint32_t {
  kMismatch = 2,
  kLost = 3,
  kLimit = 4,
  kProtocol = 5,
  kSilent = 7,
  kLeft = 8,
  kGaveUp = 9,
  kStopped = 10,
  kDeadline = 100,
  kClosed = 102,
};

// A peer's reason; one that the protocol does not have is a breach of it.
Code known_code(uint32_t number);

// As it travels: little endian, without gaps.
struct Header {
  uint32_t magic = kMagic;
  uint8_t version = kVersion;
  uint8_t kind = 0;
  uint8_t dtype = 0;
  uint8_t op = 0;
  uint32_t rank = kNoRank;
  uint32_t epoch = 0;
  uint64_t sequence = 0;
  uint64_t total = 0;
  uint32_t chunk = 0;
  uint32_t chunk_bytes = 0;
  uint32_t payload = 0;
  uint32_t code = 0;
  uint64_t completed = 0;
  uint64_t job = 0;

  // What is reduced and how, for a message.
  std::string describe() const;
  bool same_operation(const Header& other) const;
};

static_assert(sizeof(Header) == 64, "a header has 64 bytes");
static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "headers are copied as they are");

uint32_t item_bytes(uint8_t dtype);    // of one number, or of a whole group; 0 if unknown
uint32_t item_numbers(uint8_t dtype);  // how many numbers these bytes are
inline bool is_grouped(uint8_t dtype) { return dtype == kInt8 || dtype == kFp8; }
uint64_t chunks_of(uint64_t total, uint32_t chunk_bytes);

// A peer sent what the protocol does not allow.
struct FrameError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// What every frame on a connection must satisfy before its payload is read.
struct Check {
  uint32_t kinds;  // bit k: kind k may be received
  uint32_t frame;  // largest payload of a block
  uint32_t epoch;
  uint64_t job;
  uint32_t rank;  // of the worker at the other end; kNoRank where that is a reducer

  void operator()(const Header& header) const;  // throws FrameError

 private:
  void check_block(const Header& header) const;
};

// Finds whole frames in a stream of bytes, in a buffer that never grows.
class FrameReader {
 public:
  FrameReader(uint32_t frame, const Check& check);

  uint8_t* space() { return buffer_.data() + end_; }
  size_t room() const { return buffer_.size() - end_; }
  void advance(size_t count) { end_ += count; }

  // The next whole frame; its payload stays valid until `make_room`. Throws FrameError.
  bool next(Header* header, const uint8_t** payload);
  // To be called when `next` has returned false.
  void make_room();
  // How many bytes must certainly come before there is anything to do; at least one.
  size_t missing() const {
    return has_header_ ? start_ + sizeof(Header) + header_.payload - end_ : 1;
  }

 private:
  Check check_;
  std::vector<uint8_t> buffer_;
  size_t start_ = 0;
  size_t end_ = 0;
  Header header_;
  bool has_header_ = false;
};

}  // namespace rsctl
