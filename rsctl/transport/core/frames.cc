#include "frames.h"

#include <algorithm>
#include <cstring>

#include "groups.h"

namespace rsctl {

Code known_code(uint32_t number) {
  const bool known = number >= 1 && number <= static_cast<uint32_t>(Code::kStopped);
  return known ? static_cast<Code>(number) : Code::kProtocol;
}

std::string Header::describe() const {
  static const char* const names[] = {"?", "fp32", "bf16", "fp16", "int8", "fp8"};
  return std::to_string(total) + " bytes of " + names[item_bytes(dtype) ? dtype : 0] +
         (op == kSum ? " sum" : " avg");
}

bool Header::same_operation(const Header& other) const {
  return dtype == other.dtype && op == other.op && total == other.total &&
         chunk_bytes == other.chunk_bytes;
}

uint32_t item_bytes(uint8_t dtype) {
  if (is_grouped(dtype)) return kGroupBytes;
  return dtype == kFp32 ? 4 : dtype == kBf16 || dtype == kFp16 ? 2 : 0;
}

uint32_t item_numbers(uint8_t dtype) { return is_grouped(dtype) ? kGroupNumbers : 1; }

uint64_t chunks_of(uint64_t total, uint32_t chunk_bytes) {
  return std::max<uint64_t>(1, (total + chunk_bytes - 1) / chunk_bytes);
}

void Check::operator()(const Header& header) const {
  if (header.magic != kMagic) throw FrameError("this is not the reduction protocol");
  if (header.version != kVersion)
    throw FrameError("protocol version " + std::to_string(header.version) + " instead of " +
                     std::to_string(kVersion));
  if (header.kind > 31 || !(kinds >> header.kind & 1))
    throw FrameError("a frame of kind " + std::to_string(header.kind) + " is out of place");
  if (header.epoch != epoch || header.job != job)
    throw FrameError("a frame of another run or epoch");
  if (rank != kNoRank && header.rank != rank && header.kind != kError)
    throw FrameError("a frame in the name of rank " + std::to_string(header.rank));
  if (header.kind == kData || header.kind == kResult)
    check_block(header);
  else if (header.payload > (header.kind == kError ? kMaxErrorBytes : 0))
    throw FrameError("a frame of kind " + std::to_string(header.kind) + " with " +
                     std::to_string(header.payload) + " bytes of payload");
}

void Check::check_block(const Header& header) const {
  const uint32_t item = item_bytes(header.dtype);
  if (item == 0 || (header.op != kSum && header.op != kAvg))
    throw FrameError("unknown dtype " + std::to_string(header.dtype) + " or operation " +
                     std::to_string(header.op));
  if (header.sequence < 1 || header.total > kMaxTotal || header.total % item)
    throw FrameError("operation " + std::to_string(header.sequence) + " of " +
                     std::to_string(header.total) + " bytes");
  if (header.chunk_bytes < 1 || header.chunk_bytes > frame || header.chunk_bytes % item)
    throw FrameError("blocks of " + std::to_string(header.chunk_bytes) + " bytes");
  if (header.chunk >= chunks_of(header.total, header.chunk_bytes))
    throw FrameError("block " + std::to_string(header.chunk) + " is beyond the operation's end");
  const uint64_t begin = uint64_t{header.chunk} * header.chunk_bytes;
  const uint64_t expected = std::min<uint64_t>(header.chunk_bytes, header.total - begin);
  if (header.payload != expected)
    throw FrameError("a block of " + std::to_string(header.payload) + " bytes instead of " +
                     std::to_string(expected));
}

FrameReader::FrameReader(uint32_t frame, const Check& check)
    : check_(check), buffer_(2 * (sizeof(Header) + std::max(frame, kMaxErrorBytes))) {}

bool FrameReader::next(Header* header, const uint8_t** payload) {
  if (!has_header_) {
    if (end_ - start_ < sizeof(Header)) return false;
    std::memcpy(&header_, buffer_.data() + start_, sizeof(Header));
    check_(header_);
    has_header_ = true;
  }
  const size_t begin = start_ + sizeof(Header);
  if (end_ - begin < header_.payload) return false;
  *header = header_;
  *payload = buffer_.data() + begin;
  start_ = begin + header_.payload;
  has_header_ = false;
  return true;
}

void FrameReader::make_room() {
  if (start_ == end_) {
    start_ = end_ = 0;
  } else if (start_ > buffer_.size() / 2) {
    std::memmove(buffer_.data(), buffer_.data() + start_, end_ - start_);
    end_ -= start_;
    start_ = 0;
  }
}

}  // namespace rsctl
