#include "reprise/distributed/hub/handshake.h"

#include "reprise/distributed/hub/host_name.h"
#include "reprise/distributed/hub/mac.h"
#include "reprise/distributed/hub/token.h"

namespace reprise::distributed {
namespace {

constexpr size_t nonce_size = 16, hello_fields = 6;
constexpr int64_t most_ranks = 1 << 20;

// Each text behind its length: no two lists of texts are the same bytes.
std::string listed(const std::vector<std::string>& texts) {
  std::string bytes;
  for (const std::string& text : texts) bytes += std::to_string(text.size()) + ':' + text;
  return bytes;
}

// One key per purpose.
std::string key_for(const std::string& token, const char* purpose) {
  return hmac_sha256(token, std::string("reprise 2 ") + purpose);
}

}  // namespace

std::string new_nonce() { return random_bytes(nonce_size); }

Frame frame_of(const Hello& hello) {
  return {FrameKind::hello,
          {std::to_string(hello.rank), std::to_string(hello.ranks), std::to_string(hello.pid), hello.host,
           hello.nonce, hello.proof}};
}

Hello hello_in(const Frame& frame) {
  Hello hello;
  hello.ranks = int(number_in_frame(frame, 1, 1, most_ranks));
  hello.rank = int(number_in_frame(frame, 0, 0, hello.ranks - 1));
  hello.pid = number_in_frame(frame, 2, 0, INT64_MAX);
  check(frame.fields.size() == hello_fields, "hub: a hello of ", frame.fields.size(), " fields");
  check(frame.fields[3].size() <= longest_host, "hub: a hello from a host whose name has ",
        frame.fields[3].size(), " bytes; the most are ", longest_host);
  hello.host = frame.fields[3];
  hello.nonce = frame.fields[4];
  hello.proof = frame.fields[5];
  return hello;
}

std::string Handshake::made(const char* purpose, const Hello& hello) const {
  return hmac_sha256(key_for(token_, purpose),
                     listed({job_, hub_nonce_, hello.nonce, std::to_string(hello.rank),
                             std::to_string(hello.ranks), std::to_string(hello.pid), hello.host}));
}

Hello Handshake::proved(Hello hello) const {
  if (token_.empty()) return hello;
  hello.nonce = new_nonce();
  if (!hub_nonce_.empty()) hello.proof = made("proof of a rank", hello);
  return hello;
}

bool Handshake::admits(const Hello& hello) const {
  if (token_.empty()) return hello.nonce.empty() && hello.proof.empty();
  return hello.nonce.size() == nonce_size && is_same_secret(hello.proof, made("proof of a rank", hello));
}

std::string Handshake::hub_proof(const Hello& hello) const {
  return token_.empty() ? "" : made("proof of the hub", hello);
}

std::string Handshake::key_to_hub(const Hello& hello) const {
  return token_.empty() ? "" : made("frames to the hub", hello);
}

std::string Handshake::key_to_rank(const Hello& hello) const {
  return token_.empty() ? "" : made("frames to a rank", hello);
}

std::string pair_proof(const std::string& token, int from, int to, const std::string& from_nonce,
                       const std::string& to_nonce) {
  return hmac_sha256(key_for(token, "proof of a pair"),
                     listed({std::to_string(from), std::to_string(to), from_nonce, to_nonce}));
}

}  // namespace reprise::distributed
