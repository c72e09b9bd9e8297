// The reducer's loop: one thread, one poll, until everyone has left or one is lost. The Python counterpart is
// python_reducer.py.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "rsctl_core.h"
#include "pending_blocks.h"

namespace rsctl {

class Reducer {
 public:
  explicit Reducer(const rsctl_group& group);
  ~Reducer();

  void adopt(int fd, std::unique_ptr<Tls> tls, uint32_t rank);
  bool outcome(uint32_t* code, std::string* text);
  rsctl_reducer_stats stats();
  const Lateness& lateness(uint32_t rank) const { return pending_.lateness(rank); }
  uint32_t world() const { return group_.world; }
  void stop(Code code, const std::string& message);

 private:
  struct Arrival {
    int fd;
    std::unique_ptr<Tls> tls;
    uint32_t rank;
  };
  // A block, and the first rank that it lacks.
  struct Wait {
    uint64_t sequence = 0;
    uint32_t chunk = 0;
    uint32_t rank = kNoRank;
    bool operator==(const Wait& other) const {
      return sequence == other.sequence && chunk == other.chunk && rank == other.rank;
    }
  };
  struct Member {
    uint32_t rank;
    std::unique_ptr<Connection> connection;
    uint64_t completed = 0;
    uint64_t reported = 0;  // what it knows to be completed everywhere
    bool left = false;
    Wait told;  // what it knows to be waited for
  };

  void run();
  void turn();
  void take_requests();
  void admit();
  void serve(Member& member, short events);
  void handle(Member& member, const Header& header, const uint8_t* payload);
  void check_progress(Member& member, const Header& header);
  void reduce(const Header& header, const uint8_t* payload);
  void broadcast(Header header, const Bytes& result);
  void flush(Member& member);
  void leave(Member& member);
  void refuse_without(uint64_t sequence);
  void keep_alive();
  Wait long_wait() const;
  Header heartbeat();
  uint64_t completed() const;
  EpochFailed lost(Member& member, Code code, const std::string& what);
  void drop(Member& member);
  void end(Code code, const std::string& message, uint32_t rank);
  void set_outcome(uint32_t code, const std::string& message);

  const rsctl_group group_;
  PendingBlocks pending_;
  std::vector<std::unique_ptr<Member>> members_;  // by rank; null until it has come
  uint32_t left_ = 0;
  uint64_t finished_ = 0;  // the last operation that a rank has finished, and which
  uint32_t finished_by_ = kNoRank;
  bool has_unreported_ = false;  // whether a member must hear soon, or a wait may become long
  uint32_t blamed_ = 0;      // of a worker's ERROR: 1 + the reducer that failed, or 0
  bool ended_here_ = false;  // the thread's own view of the outcome
  std::atomic<uint64_t> blocks_{0};
  WakePipe wake_;

  std::mutex mutex_;  // guards what follows, and the list of members against `stats`
  std::vector<Arrival> arrivals_;
  bool stop_requested_ = false;
  uint32_t stop_code_ = 0;
  std::string stop_text_;
  bool ended_ = false;
  uint32_t outcome_code_ = 0;
  std::string outcome_text_;
  uint64_t closed_in_ = 0;
  uint64_t closed_out_ = 0;

  std::mutex joining_;
  std::thread thread_;
};

}  // namespace rsctl
