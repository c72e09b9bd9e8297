// The client's loop: one thread, one poll. The Python counterpart is python_client.py.
#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "connection.h"
#include "operations.h"

namespace rsctl {

struct Failure {
  Code code;
  uint32_t server;
  uint32_t rank;
  bool remote;
  uint64_t sequence;
  std::string detail;
  uint32_t blamed = 0;  // as in an ERROR frame: 1 + the reducer that failed, or 0
};

class Client {
 public:
  Client(const rsctl_membership& membership, const uint32_t* slots, const uint32_t* windows,
         const int* fds, void* const* tls);
  ~Client();

  uint64_t submit(void* data, uint64_t bytes, uint32_t chunk_bytes, uint8_t dtype, uint8_t op);
  bool wait(uint64_t sequence, double timeout);
  void set_timeout(double timeout) { timeout_.store(timeout); }
  uint64_t completed() const { return completed_.load(); }
  uint64_t committed() const { return committed_.load(); }
  bool failure(Failure* failure);
  rsctl_client_stats stats();
  void stop();

 private:
  struct Submission {
    void* data;
    uint64_t bytes;
    uint32_t chunk_bytes;
    uint8_t dtype;
    uint8_t op;
  };
  struct Server {
    uint32_t number;
    uint32_t room;
    uint32_t waits_for = kNoRank;
    std::unique_ptr<Connection> connection;
    uint64_t reported = 0;  // what it knows to be completed here
  };
  // Thrown by the loop's own functions to end it.
  struct Failed {
    Failure failure;
  };

  void run();
  bool turn();
  bool take_submissions();
  void serve(Server& server, short events);
  void receive(Server& server);
  void handle(Server& server, const Header& header, const uint8_t* payload);
  void finish(uint64_t total);
  void send_blocks();
  void flush(Server& server);
  void keep_alive();
  bool is_behind(const Server& server) const;
  Header own_header(uint8_t kind) const;
  Failed failed(Code code, const Server& server, const std::string& detail,
                uint32_t rank = kNoRank, bool remote = false) const;
  void end(const Failure& failure);

  const rsctl_membership membership_;
  Operations operations_;
  std::vector<Server> servers_;
  double progress_;
  double busy_since_ = 0;
  double stalled_since_ = 0;
  WakePipe wake_;

  std::atomic<double> timeout_;  // without progress, in seconds
  std::atomic<uint64_t> completed_{0};
  std::atomic<uint64_t> committed_{0};
  std::atomic<uint64_t> reduced_{0};
  std::atomic<double> busy_{0};
  std::atomic<double> stalled_{0};

  std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  std::vector<Submission> submissions_;
  uint64_t submitted_ = 0;
  bool stopping_ = false;
  bool has_failed_ = false;
  Failure failure_{};

  std::mutex joining_;
  std::thread thread_;
};

// What happened, for the reducers and so for the other workers.
std::string message(const Failure& failure);

}  // namespace rsctl
