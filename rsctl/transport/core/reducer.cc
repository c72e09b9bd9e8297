#include "reducer.h"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>

#include "sums.h"
#include "text.h"

namespace rsctl {
namespace {

constexpr double kHeartbeats = 4;
constexpr uint32_t kKinds = 1u << kData | 1u << kHeartbeat | 1u << kError | 1u << kGoodbye;

std::string rank_text(uint32_t rank) { return "rank " + std::to_string(rank); }

}  // namespace

Reducer::Reducer(const rsctl_group& group)
    : group_(group), pending_(group.world, group.window), members_(group.world) {
  thread_ = std::thread([this] { run(); });
}

Reducer::~Reducer() {
  stop(Code::kStopped, "the reducer was stopped");
  for (const auto& arrival : arrivals_) close(arrival.fd);
}

void Reducer::adopt(int fd, std::unique_ptr<Tls> tls, uint32_t rank) {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    if (ended_) {  // nobody would serve it
      close(fd);
      return;
    }
    arrivals_.push_back({fd, std::move(tls), rank});
  }
  wake_.notify();
}

bool Reducer::outcome(uint32_t* code, std::string* text) {
  std::lock_guard<std::mutex> lock(mutex_);
  *code = outcome_code_;
  *text = outcome_text_;
  return ended_;
}

rsctl_reducer_stats Reducer::stats() {
  std::lock_guard<std::mutex> lock(mutex_);
  rsctl_reducer_stats stats{closed_in_, closed_out_, blocks_.load(), 0};
  for (const auto& member : members_) {
    if (!member || !member->connection) continue;
    stats.bytes_in += member->connection->bytes_in();
    stats.bytes_out += member->connection->bytes_out();
    ++stats.members;
  }
  return stats;
}

void Reducer::stop(Code code, const std::string& message) {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    stop_requested_ = true;
    stop_code_ = static_cast<uint32_t>(code);
    stop_text_ = message;
  }
  wake_.notify();
  std::lock_guard<std::mutex> joining(joining_);  // more than one thread may stop it
  if (thread_.joinable()) thread_.join();
}

void Reducer::run() {
  set_plain_arithmetic();
  try {
    while (!ended_here_) turn();
  } catch (const EpochFailed& refused) {
    end(refused.code, refused.what(), refused.rank);
  } catch (const std::exception& error) {
    end(Code::kStopped, std::string("the reducer failed: ") + error.what(), kNoRank);
  }
  for (auto& member : members_)
    if (member && member->connection) drop(*member);
}

void Reducer::turn() {
  std::vector<pollfd> polled{{wake_.fd(), POLLIN, 0}};
  std::vector<Member*> polled_members{nullptr};
  bool has_more = false;
  for (auto& member : members_) {
    if (!member || !member->connection) continue;
    polled.push_back(member->connection->polled());
    polled_members.push_back(member.get());
    has_more |= member->connection->has_more();
  }
  const double pause = has_unreported_ ? kPromptSeconds : group_.silence / kHeartbeats / 2;
  poll(polled.data(), polled.size(), has_more ? 0 : static_cast<int>(pause * 1000) + 1);
  if (polled[0].revents) take_requests();
  for (size_t i = 1; i < polled.size() && !ended_here_; ++i)
    if (const short events = polled_members[i]->connection->events(polled[i]))
      serve(*polled_members[i], events);
  if (!ended_here_) keep_alive();
}

void Reducer::take_requests() {
  wake_.clear();
  admit();
  std::unique_lock<std::mutex> lock(mutex_);
  if (!stop_requested_) return;
  const auto code = static_cast<Code>(stop_code_);
  const std::string text = stop_text_;
  lock.unlock();
  end(code, text, kNoRank);
}

void Reducer::admit() {
  std::lock_guard<std::mutex> lock(mutex_);
  for (Arrival& arrival : arrivals_) {
    const Check check{kKinds, group_.frame, group_.epoch, group_.job, arrival.rank};
    auto member = std::make_unique<Member>();
    member->rank = arrival.rank;
    member->connection =
        std::make_unique<Connection>(arrival.fd, std::move(arrival.tls), group_.frame, check);
    members_[arrival.rank] = std::move(member);
  }
  arrivals_.clear();
}

void Reducer::serve(Member& member, short events) {
  try {
    if (events & POLLOUT) flush(member);
    if (!(events & ~POLLOUT) || !member.connection->read()) return;
    Header header;
    const uint8_t* payload;
    while (member.connection && member.connection->next(&header, &payload))
      handle(member, header, payload);
    if (member.connection) member.connection->expect_more();
  } catch (const ConnectionClosed& ended) {
    throw lost(member, Code::kLost, std::string("was lost: ") + ended.what());
  } catch (const FrameError& error) {
    throw EpochFailed(Code::kProtocol, member.rank,
                  rank_text(member.rank) + " broke the protocol: " + error.what());
  }
}

void Reducer::handle(Member& member, const Header& header, const uint8_t* payload) {
  check_progress(member, header);
  if (header.kind == kData) {
    reduce(header, payload);
  } else if (header.kind == kError) {
    blamed_ = header.chunk;
    throw EpochFailed(known_code(header.code), header.rank,
                  rank_text(member.rank) + " gave up: " + printable(payload, header.payload));
  } else if (header.kind == kGoodbye) {
    leave(member);
  }
}

// Takes in what a worker has finished. Throws FrameError if that cannot be.
void Reducer::check_progress(Member& member, const Header& header) {
  const uint64_t claimed = header.completed;
  if (header.kind == kError) return;
  if (header.kind == kData && header.sequence <= std::max(claimed, finished_)) {
    const uint32_t rank = header.sequence <= claimed ? member.rank : finished_by_;
    throw FrameError("a block of operation " + std::to_string(header.sequence) + ", which " +
                     rank_text(rank) + " has finished");
  }
  if (claimed <= member.completed) return;
  const PendingBlock* first = pending_.oldest();
  if (first && claimed >= first->header().sequence)
    throw FrameError("it has finished operation " + std::to_string(claimed) + ", but " +
                     std::to_string(first->header().sequence) + " is under way");
  member.completed = claimed;
  if (claimed < finished_) return;
  finished_ = claimed;
  finished_by_ = member.rank;
}

void Reducer::reduce(const Header& header, const uint8_t* payload) {
  if (const Bytes result = pending_.add(header, payload))
    broadcast(header, result);
  else if (left_ > 0)
    refuse_without(header.sequence);
}

// To the ranks in turn, from another first one for each block, so that reducers that finish at the
// same time do not all send to the same worker.
void Reducer::broadcast(Header header, const Bytes& result) {
  header.kind = kResult;
  header.rank = kNoRank;
  header.completed = completed();
  blocks_.fetch_add(1, std::memory_order_relaxed);
  for (uint32_t turn = 0; turn < group_.world; ++turn) {
    auto& member = members_[(header.sequence + header.chunk + turn) % group_.world];
    if (!member || !member->connection) continue;
    member->connection->queue(header, result->data(), result);
    member->reported = header.completed;
    member->told = {};
    pending_.delivered(member->rank);
    flush(*member);
  }
}

void Reducer::flush(Member& member) {
  try {
    member.connection->flush();
  } catch (const ConnectionClosed& ended) {
    throw lost(member, Code::kLost, std::string("was lost: ") + ended.what());
  }
  if (member.connection->queued() > group_.window + 2)
    throw EpochFailed(Code::kLimit, member.rank,
                  rank_text(member.rank) + " does not read its results");
}

void Reducer::leave(Member& member) {
  uint64_t sequence;
  if (pending_.lacks(member.rank, &sequence))
    throw EpochFailed(Code::kLeft, member.rank,
                  rank_text(member.rank) + " left before operation " + std::to_string(sequence));
  member.left = true;
  if (++left_ == group_.world) {
    set_outcome(0, "all workers have left");
    ended_here_ = true;
  }
  // A worker waits for this: when it goes on, everyone can see that all have left.
  drop(member);
}

void Reducer::refuse_without(uint64_t sequence) {
  uint64_t lacked;
  for (const auto& member : members_)
    if (member && member->left && pending_.lacks(member->rank, &lacked))
      throw EpochFailed(Code::kLeft, member->rank,
                    rank_text(member->rank) + " left before operation " +
                        std::to_string(sequence));
}

void Reducer::keep_alive() {
  const double time = now();
  const uint64_t everywhere = completed();
  const Wait waits = long_wait();
  has_unreported_ = pending_.oldest() && waits == Wait{};
  for (auto& member : members_) {
    if (!member || !member->connection) continue;
    const bool quiet = time - member->connection->last_received() > group_.silence / kHeartbeats;
    if (quiet && member->connection->has_partial_frame()) {  // parts of it may have come
      serve(*member, POLLIN);
      if (ended_here_) return;
      if (!member->connection) continue;
    }
    Connection& connection = *member->connection;
    if (time - connection.last_received() > group_.silence)
      throw lost(*member, Code::kSilent, "has been silent for " + seconds(group_.silence));
    const bool has_news = !(waits == Wait{}) && !(waits == member->told);
    const bool is_behind = member->reported < everywhere || has_news;
    const double pause = is_behind ? kPromptSeconds : group_.silence / kHeartbeats;
    if (time - connection.last_sent() > pause && !connection.busy()) {
      connection.queue(heartbeat());
      member->reported = everywhere;
      member->told = waits;
      flush(*member);
    } else if (is_behind) {
      has_unreported_ = true;
    }
  }
}

// What has been waited for so long that workers are to know it at once.
Reducer::Wait Reducer::long_wait() const {
  const PendingBlock* oldest = pending_.oldest();
  if (!oldest || now() - oldest->since() < kWaitedSeconds) return {};
  return {oldest->header().sequence, oldest->header().chunk, oldest->missing(group_.world)};
}

Header Reducer::heartbeat() {
  Header header;
  header.kind = kHeartbeat;
  header.epoch = group_.epoch;
  header.job = group_.job;
  header.completed = completed();
  if (const PendingBlock* oldest = pending_.oldest()) {
    header.sequence = oldest->header().sequence;
    header.chunk = oldest->header().chunk;
    header.rank = oldest->missing(group_.world);
  }
  return header;
}

uint64_t Reducer::completed() const {
  uint64_t least = UINT64_MAX;
  for (const auto& member : members_) least = std::min(least, member ? member->completed : 0);
  return least;
}

EpochFailed Reducer::lost(Member& member, Code code, const std::string& what) {
  const PendingBlock* oldest = pending_.oldest();
  const std::string during =
      oldest ? " during operation " + std::to_string(oldest->header().sequence) : "";
  drop(member);
  return EpochFailed(code, member.rank, rank_text(member.rank) + " " + what + during);
}

void Reducer::drop(Member& member) {
  std::lock_guard<std::mutex> lock(mutex_);
  closed_in_ += member.connection->bytes_in();
  closed_out_ += member.connection->bytes_out();
  member.connection.reset();
}

void Reducer::end(Code code, const std::string& message, uint32_t rank) {
  set_outcome(static_cast<uint32_t>(code), message);
  ended_here_ = true;
  admit();  // workers that have only just come get the ERROR, too
  Header header;
  header.epoch = group_.epoch;
  header.job = group_.job;
  header.rank = rank;
  header.chunk = blamed_;
  header.sequence = pending_.oldest() ? pending_.oldest()->header().sequence : 0;
  pending_.clear();
  std::vector<Connection*> rest;
  for (auto& member : members_) {
    if (!member || !member->connection) continue;
    member->connection->queue_error(header, code, message);
    rest.push_back(member->connection.get());
  }
  close_gracefully(rest);
}

void Reducer::set_outcome(uint32_t code, const std::string& message) {
  std::lock_guard<std::mutex> lock(mutex_);
  ended_ = true;
  outcome_code_ = code;
  outcome_text_ = message;
}

}  // namespace rsctl
