// TLS 1.3 below the protocol, by the OpenSSL that the interpreter has loaded. The Python counterpart
// is tls_stream.py.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace rsctl {

// What this file needs of OpenSSL since 1.1.1: name, result, parameters. Objects of OpenSSL are void.
#define RSCTL_OPENSSL_FUNCTIONS(X)                                              \
  X(TLS_method, const void*, ())                                                \
  X(SSL_CTX_new, void*, (const void* method))                                   \
  X(SSL_CTX_free, void, (void* context))                                        \
  X(SSL_CTX_ctrl, long, (void* context, int command, long number, void* data))  \
  X(SSL_CTX_use_certificate_ASN1, int, (void* context, int size, const uint8_t* der)) \
  X(SSL_CTX_use_PrivateKey_ASN1, int, (int kind, void* context, const uint8_t* der, long size)) \
  X(SSL_CTX_check_private_key, int, (const void* context))                      \
  X(SSL_CTX_set_num_tickets, int, (void* context, size_t count))                \
  X(SSL_CTX_set_verify, void, (void* context, int mode, void* callback))        \
  X(SSL_CTX_set_cert_verify_callback, void,                                     \
    (void* context, int (*callback)(void* chain, void* argument), void* argument)) \
  X(X509_STORE_CTX_get0_cert, void*, (const void* chain))                       \
  X(X509_STORE_CTX_set_error, void, (void* chain, int code))                    \
  X(i2d_X509, int, (const void* certificate, uint8_t** der))                    \
  X(SSL_new, void*, (void* context))                                            \
  X(SSL_free, void, (void* ssl))                                                \
  X(SSL_set_accept_state, void, (void* ssl))                                    \
  X(SSL_set_connect_state, void, (void* ssl))                                   \
  X(SSL_set_bio, void, (void* ssl, void* incoming, void* outgoing))             \
  X(SSL_do_handshake, int, (void* ssl))                                         \
  X(SSL_read, int, (void* ssl, void* data, int size))                           \
  X(SSL_write, int, (void* ssl, const void* data, int size))                    \
  X(SSL_shutdown, int, (void* ssl))                                             \
  X(SSL_get_error, int, (const void* ssl, int result))                          \
  X(SSL_get_verify_result, long, (const void* ssl))                             \
  X(SSL_get_finished, size_t, (const void* ssl, void* data, size_t size))       \
  X(SSL_get_peer_finished, size_t, (const void* ssl, void* data, size_t size))  \
  X(BIO_s_mem, const void*, ())                                                 \
  X(BIO_new, void*, (const void* method))                                       \
  X(BIO_free, int, (void* bio))                                                 \
  X(BIO_write, int, (void* bio, const void* data, int size))                    \
  X(BIO_ctrl, long, (void* bio, int command, long number, void* data))          \
  X(ERR_clear_error, void, ())                                                  \
  X(ERR_peek_last_error, unsigned long, ())                                     \
  X(ERR_reason_error_string, const char*, (unsigned long code))

constexpr size_t kMostTlsBytes = 1 << 16;  // plaintext in one go, and ciphertext of one read

// The names of these functions, separated by spaces.
const char* openssl_names();
// To be called once, before anything else here, with their addresses in the same order.
void use_openssl(void* const* functions);

// What the connections of one side have in common.
class TlsContext {
 public:
  // `key` (ECDSA, SEC 1) and `certificate` are DER. A reducer presents the certificate, a worker
  // accepts no other. Throws std::runtime_error if they do not belong together.
  TlsContext(const uint8_t* key, size_t key_bytes, const uint8_t* certificate,
             size_t certificate_bytes, bool is_reducer);
  ~TlsContext();
  TlsContext(const TlsContext&) = delete;
  TlsContext& operator=(const TlsContext&) = delete;

  void* handle() const { return context_; }
  bool is_reducer() const { return is_reducer_; }

 private:
  static int verify(void* chain, void* self);

  void* context_ = nullptr;
  std::vector<uint8_t> certificate_;
  bool is_reducer_;
};

// One connection: ciphertext goes in and out by memory. For one thread at a time.
class Tls {
 public:
  enum class Step { kDone, kWants, kFailed, kUntrusted };

  explicit Tls(const TlsContext& context);  // which may go before this; throws std::runtime_error
  ~Tls();
  Tls(const Tls&) = delete;
  Tls& operator=(const Tls&) = delete;

  // As far as it goes with what has come. `reason` is OpenSSL's, of a failure.
  Step handshake(std::string* reason);
  // The client's Finished message, which both sides have (RFC 5929, tls-unique); its size.
  size_t binding(uint8_t* to, size_t room);

  void put(const uint8_t* ciphertext, size_t size);  // from the peer
  // Plaintext; 0 if more must come. Throws ConnectionClosed at the peer's end and after any fault.
  size_t read(uint8_t* to, size_t room);
  void write(const uint8_t* plaintext, size_t size);  // throws ConnectionClosed
  void finish();                                      // this side's end: close_notify

  // Ciphertext for the peer, until `sent` or the next call that makes some.
  const uint8_t* pending(size_t* size);
  void sent(size_t size);

  // Of the record that has begun to come: the bytes that are here and those that are to come.
  size_t record_here() const { return record_here_; }
  size_t record_left() const { return record_left_; }

 private:
  void follow_records(const uint8_t* ciphertext, size_t size);

  void* ssl_ = nullptr;
  void* incoming_ = nullptr;
  void* outgoing_ = nullptr;
  size_t sent_ = 0;
  bool is_reducer_;
  bool finished_ = false;
  std::string fault_;  // what broke the connection: OpenSSL names it once
  uint8_t header_[5];
  size_t record_here_ = 0;
  size_t record_left_ = 0;
};

}  // namespace rsctl
