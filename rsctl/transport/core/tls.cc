#include "tls.h"

#include <algorithm>
#include <atomic>
#include <cctype>
#include <cstdlib>
#include <cstring>
#include <stdexcept>
#include <thread>

#include "connection.h"

namespace rsctl {
namespace {

// Numbers of OpenSSL's headers, which all versions since 1.1.1 share.
constexpr int kEllipticKey = 408, kVerifyPeer = 1, kCertificateRejected = 28;
constexpr int kSetLeastVersion = 123, kSetSessionCache = 44, kReset = 1, kContents = 3;
constexpr long kTls13 = 0x0304;
constexpr int kWantRead = 2, kZeroReturn = 6;
// A peer that asks for new keys, and does not read the answers, gets no more of them.
constexpr size_t kMostAnswers = 1 << 20;

struct Functions {
#define RSCTL_POINTER(name, result, parameters) result(*name) parameters;
  RSCTL_OPENSSL_FUNCTIONS(RSCTL_POINTER)
#undef RSCTL_POINTER
};

Functions openssl;

// OpenSSL frees what it shares when the process exits, while threads of engines may still run. Our
// handler runs before its own: after it, no call begins.
std::atomic<int> calls{0};
std::atomic<bool> exiting{false};

class Call {
 public:
  Call() {
    calls.fetch_add(1);
    if (!exiting.load()) return;
    calls.fetch_sub(1);
    throw ConnectionClosed("this process exits");
  }
  ~Call() { calls.fetch_sub(1); }
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;
};

void end_calls() {
  exiting.store(true);
  while (calls.load() > 0) std::this_thread::yield();
}

std::string last_reason() {
  const char* reason = openssl.ERR_reason_error_string(openssl.ERR_peek_last_error());
  openssl.ERR_clear_error();
  return reason ? reason : "unknown error";
}

}  // namespace

const char* openssl_names() {
#define RSCTL_NAME(name, result, parameters) #name " "
  return RSCTL_OPENSSL_FUNCTIONS(RSCTL_NAME);
#undef RSCTL_NAME
}

void use_openssl(void* const* functions) {
#define RSCTL_ASSIGN(name, result, parameters) \
  openssl.name = reinterpret_cast<result(*) parameters>(*functions++);
  RSCTL_OPENSSL_FUNCTIONS(RSCTL_ASSIGN)
#undef RSCTL_ASSIGN
  std::atexit(end_calls);
}

TlsContext::TlsContext(const uint8_t* key, size_t key_bytes, const uint8_t* certificate,
                       size_t certificate_bytes, bool is_reducer)
    : certificate_(certificate, certificate + certificate_bytes), is_reducer_(is_reducer) {
  const Call call;
  openssl.ERR_clear_error();
  context_ = openssl.SSL_CTX_new(openssl.TLS_method());
  bool is_set = context_ && openssl.SSL_CTX_ctrl(context_, kSetLeastVersion, kTls13, nullptr) == 1;
  if (is_set) openssl.SSL_CTX_ctrl(context_, kSetSessionCache, 0, nullptr);
  if (is_set && is_reducer) {
    const int size = static_cast<int>(certificate_bytes);
    is_set = openssl.SSL_CTX_use_certificate_ASN1(context_, size, certificate) == 1 &&
             openssl.SSL_CTX_use_PrivateKey_ASN1(kEllipticKey, context_, key,
                                                 static_cast<long>(key_bytes)) == 1 &&
             openssl.SSL_CTX_check_private_key(context_) == 1 &&
             openssl.SSL_CTX_set_num_tickets(context_, 0) == 1;  // no client resumes
  } else if (is_set) {
    openssl.SSL_CTX_set_verify(context_, kVerifyPeer, nullptr);
    openssl.SSL_CTX_set_cert_verify_callback(context_, verify, this);
  }
  if (is_set) return;
  openssl.ERR_clear_error();
  if (context_) openssl.SSL_CTX_free(context_);
  throw std::runtime_error("no certificate with its key");
}

TlsContext::~TlsContext() {
  try {
    const Call call;
    openssl.SSL_CTX_free(context_);
  } catch (const ConnectionClosed&) {
  }
}

// Whether the peer's certificate is this run's, byte by byte. That the peer has its key follows from
// the handshake.
int TlsContext::verify(void* chain, void* self) {
  const auto& expected = static_cast<TlsContext*>(self)->certificate_;
  void* certificate = openssl.X509_STORE_CTX_get0_cert(chain);
  const int size = certificate ? openssl.i2d_X509(certificate, nullptr) : -1;
  if (size > 0 && static_cast<size_t>(size) == expected.size()) {
    std::vector<uint8_t> found(expected.size());
    uint8_t* end = found.data();
    if (openssl.i2d_X509(certificate, &end) == size && found == expected) return 1;
  }
  openssl.X509_STORE_CTX_set_error(chain, kCertificateRejected);
  return 0;
}

Tls::Tls(const TlsContext& context) : is_reducer_(context.is_reducer()) {
  const Call call;
  ssl_ = openssl.SSL_new(context.handle());
  incoming_ = openssl.BIO_new(openssl.BIO_s_mem());
  outgoing_ = openssl.BIO_new(openssl.BIO_s_mem());
  if (!ssl_ || !incoming_ || !outgoing_) {
    openssl.ERR_clear_error();
    if (incoming_) openssl.BIO_free(incoming_);
    if (outgoing_) openssl.BIO_free(outgoing_);
    if (ssl_) openssl.SSL_free(ssl_);
    throw std::runtime_error("no memory for TLS");
  }
  openssl.SSL_set_bio(ssl_, incoming_, outgoing_);
  (is_reducer_ ? openssl.SSL_set_accept_state : openssl.SSL_set_connect_state)(ssl_);
}

Tls::~Tls() {
  try {
    const Call call;
    openssl.SSL_free(ssl_);
  } catch (const ConnectionClosed&) {
  }
}

Tls::Step Tls::handshake(std::string* reason) {
  const Call call;
  openssl.ERR_clear_error();
  const int result = openssl.SSL_do_handshake(ssl_);
  if (result == 1) return Step::kDone;
  if (openssl.SSL_get_error(ssl_, result) == kWantRead) return Step::kWants;
  *reason = last_reason();
  const bool is_untrusted = openssl.SSL_get_verify_result(ssl_) == kCertificateRejected;
  return is_untrusted ? Step::kUntrusted : Step::kFailed;
}

size_t Tls::binding(uint8_t* to, size_t room) {
  const Call call;
  return (is_reducer_ ? openssl.SSL_get_peer_finished : openssl.SSL_get_finished)(ssl_, to, room);
}

void Tls::put(const uint8_t* ciphertext, size_t size) {
  const Call call;
  follow_records(ciphertext, size);
  if (openssl.BIO_write(incoming_, ciphertext, static_cast<int>(size)) != static_cast<int>(size))
    throw ConnectionClosed("no memory for TLS");
}

size_t Tls::read(uint8_t* to, size_t room) {
  if (!fault_.empty()) throw ConnectionClosed(fault_);
  const Call call;
  openssl.ERR_clear_error();
  const int count = openssl.SSL_read(ssl_, to, static_cast<int>(std::min(room, kMostTlsBytes)));
  if (openssl.BIO_ctrl(outgoing_, kContents, 0, nullptr) > static_cast<long>(kMostAnswers))
    throw ConnectionClosed("it asks for new keys and does not read the answers");
  if (count > 0) return static_cast<size_t>(count);
  const int error = openssl.SSL_get_error(ssl_, count);
  if (error == kWantRead) return 0;
  if (error == kZeroReturn) throw ConnectionClosed("it closed the connection");
  fault_ = "TLS: " + last_reason();
  throw ConnectionClosed(fault_);
}

void Tls::write(const uint8_t* plaintext, size_t size) {
  const Call call;
  openssl.ERR_clear_error();
  if (openssl.SSL_write(ssl_, plaintext, static_cast<int>(size)) != static_cast<int>(size))
    throw ConnectionClosed("TLS: " + last_reason());
}

void Tls::finish() {
  if (finished_) return;
  const Call call;
  finished_ = true;
  openssl.ERR_clear_error();
  openssl.SSL_shutdown(ssl_);  // fails after a fault, whose alert says more
  openssl.ERR_clear_error();
}

const uint8_t* Tls::pending(size_t* size) {
  const Call call;
  char* data = nullptr;
  const long count = openssl.BIO_ctrl(outgoing_, kContents, 0, &data);
  *size = static_cast<size_t>(count) - sent_;
  return reinterpret_cast<const uint8_t*>(data) + sent_;
}

void Tls::sent(size_t size) {
  const Call call;
  sent_ += size;
  if (static_cast<size_t>(openssl.BIO_ctrl(outgoing_, kContents, 0, nullptr)) > sent_) return;
  openssl.BIO_ctrl(outgoing_, kReset, 0, nullptr);
  sent_ = 0;
}

// A record is a header of five bytes, whose last two are the size of the rest (RFC 8446, 5.1).
void Tls::follow_records(const uint8_t* ciphertext, size_t size) {
  while (size > 0) {
    if (record_here_ < sizeof header_) {
      header_[record_here_++] = *ciphertext++;
      --size;
      record_left_ = sizeof header_ - record_here_;
      if (record_left_ > 0) continue;
      record_left_ = static_cast<size_t>(header_[3] << 8 | header_[4]);
    }
    const size_t taken = std::min(size, record_left_);
    ciphertext += taken;
    size -= taken;
    record_here_ += taken;
    record_left_ -= taken;
    if (record_left_ == 0) record_here_ = 0;
  }
}

}  // namespace rsctl
