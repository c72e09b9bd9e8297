// Feeds the frame parser with mutated frames in arbitrary pieces, and the sums with the blocks that
// it hands out, under sanitizers.
//
// With clang, `-fsanitize=fuzzer -DRSCTL_LIBFUZZER` makes a libFuzzer target of it. Without, it
// brings a plain mutator: `fuzz_frames SECONDS [SEED]`.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>

#include "../frames.h"
#include "../sums.h"

namespace {

constexpr uint32_t kFrame = 4096;
constexpr uint64_t kJob = 0x1122334455667788;
constexpr uint32_t kEpoch = 3, kRank = 1;

void require(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "broken: %s\n", what);
  std::abort();
}

// A reducer's work on a block from a hostile peer: any bits may be in its numbers and scales.
void sum(const rsctl::Header& header, const uint8_t* payload) {
  const uint32_t item = rsctl::item_bytes(header.dtype);
  require(item > 0 && header.payload % item == 0, "a block has whole items of a known dtype");
  const size_t count = size_t{header.payload / item} * rsctl::item_numbers(header.dtype);
  std::vector<float> sums(count);
  std::vector<uint8_t> block(header.payload);
  rsctl::widen(sums.data(), payload, count, header.dtype);
  rsctl::add(sums.data(), payload, count, header.dtype);
  rsctl::average(sums.data(), count, 2);
  rsctl::narrow(block.data(), sums.data(), count, header.dtype);
}

// The reader must hand out only payloads of the announced and allowed size, and never run full.
void parse(const uint8_t* data, size_t size, uint32_t kinds, uint32_t rank) {
  const rsctl::Check check{kinds, kFrame, kEpoch, kJob, rank};
  rsctl::FrameReader reader(kFrame, check);
  uint64_t seen = 0;
  size_t piece = size ? data[0] + 1u : 1;
  try {
    while (size > 0) {
      require(reader.room() > 0, "there is always room");
      const size_t count = std::min({piece, size, reader.room()});
      std::memcpy(reader.space(), data, count);
      reader.advance(count);
      data += count;
      size -= count;
      piece = piece * 7 % 5003 + 1;
      rsctl::Header header;
      const uint8_t* payload;
      while (reader.next(&header, &payload)) {
        require(header.payload <= kFrame, "a payload is within the frame");
        for (uint32_t i = 0; i < header.payload; ++i) seen += payload[i];
        if (header.kind == rsctl::kData) sum(header, payload);
      }
      reader.make_room();
      require(reader.missing() > 0, "more is expected");
      require(reader.missing() <= sizeof header + kFrame, "no more is expected than a frame");
    }
  } catch (const rsctl::FrameError&) {
  }
  // Keeps the compiler from leaving the reading out.
  require(seen != UINT64_MAX, "so many bytes cannot be");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  parse(data, size, 1u << 5 | 1u << 7 | 1u << 8 | 1u << 9, kRank);
  parse(data, size, 1u << 6 | 1u << 7 | 1u << 8, rsctl::kNoRank);
  return 0;
}

#ifndef RSCTL_LIBFUZZER

namespace {

using Random = std::mt19937_64;

std::vector<uint8_t> valid_frame(Random& random) {
  rsctl::Header header;
  const uint8_t kinds[] = {5, 6, 7, 8, 9};
  header.kind = kinds[random() % 5];
  header.rank = kRank;
  header.epoch = kEpoch;
  header.job = kJob;
  if (header.kind == rsctl::kData || header.kind == rsctl::kResult) {
    header.dtype = static_cast<uint8_t>(1 + random() % 5);
    const uint32_t item = rsctl::item_bytes(header.dtype);
    header.op = static_cast<uint8_t>(1 + random() % 2);
    header.sequence = 1 + random() % 9;
    header.total = random() % 20000 / item * item;
    header.chunk_bytes = static_cast<uint32_t>(item + random() % (kFrame / item) * item);
    if (header.chunk_bytes > kFrame) header.chunk_bytes = kFrame / item * item;
    const uint64_t chunks = rsctl::chunks_of(header.total, header.chunk_bytes);
    header.chunk = static_cast<uint32_t>(random() % chunks);
    const uint64_t begin = uint64_t{header.chunk} * header.chunk_bytes;
    header.payload =
        static_cast<uint32_t>(std::min<uint64_t>(header.chunk_bytes, header.total - begin));
  } else if (header.kind == rsctl::kError) {
    header.payload = static_cast<uint32_t>(random() % (rsctl::kMaxErrorBytes + 1));
  }
  std::vector<uint8_t> frame(sizeof header + header.payload);
  std::memcpy(frame.data(), &header, sizeof header);
  std::generate(frame.begin() + sizeof header, frame.end(),
                [&] { return static_cast<uint8_t>(random()); });
  return frame;
}

void mutate(std::vector<uint8_t>& data, Random& random) {
  for (uint64_t changes = random() % 4; changes > 0 && !data.empty(); --changes) {
    const size_t index = random() % data.size();
    switch (random() % 4) {
      case 0: data[index] = static_cast<uint8_t>(random()); break;
      case 1: data[index] ^= static_cast<uint8_t>(1 << random() % 8); break;
      case 2: data.resize(index); break;
      default: data[index] = random() % 2 ? 0xff : 0; break;
    }
  }
}

}  // namespace

int main(int count, char** arguments) {
  const double seconds = count > 1 ? std::atof(arguments[1]) : 10;
  const uint64_t seed = count > 2 ? std::strtoull(arguments[2], nullptr, 0) : std::random_device{}();
  Random random(seed);
  const auto until = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
  uint64_t inputs = 0;
  for (; inputs % 64 || std::chrono::steady_clock::now() < until; ++inputs) {
    std::vector<uint8_t> data;
    for (uint64_t frames = 1 + random() % 6; frames > 0; --frames) {
      std::vector<uint8_t> frame = valid_frame(random);
      if (random() % 3 == 0) mutate(frame, random);
      data.insert(data.end(), frame.begin(), frame.end());
    }
    LLVMFuzzerTestOneInput(data.data(), data.size());
  }
  std::printf("%llu inputs, seed %llu: no fault\n", static_cast<unsigned long long>(inputs),
              static_cast<unsigned long long>(seed));
  return 0;
}

#endif
