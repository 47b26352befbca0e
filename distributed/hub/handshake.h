// The handshake of a join: how a rank and the hub prove to each other that they have the job's token.
//
// Note [The join]
//
//   hub  -> rank   greeting   protocol, job, the hub's nonce
//   rank -> hub    hello      rank, ranks, pid, the name of its machine, the rank's nonce, its proof
//   hub  -> rank   accepted   the hub's proof
//
// From here on both seal their frames (hub/frame_stream.h), and send heartbeats.
//
//   hub  -> rank   call       all have come
//   rank -> hub    places     where each rank finds this one: it listens there only now, so that strangers find it for a moment
//   hub  -> rank   welcome    where this rank finds each one, and their nonces
//
// Nonces are 128 random bits, new for each connection. A proof is the MAC
// of both nonces, the job, the rank and the number of ranks, and of all that the hello says, under a key that is made from the
// token for this side and this purpose alone: so that a proof sent back is none, nor one of another connection, rank or job.
// Without a token nonces and proofs are empty, and frames are open: among processes of one user, on loopback alone.
#pragma once

#include "reprise/distributed/hub/frame.h"

namespace reprise::distributed {

inline constexpr const char* hub_protocol = "reprise-hub-4";

struct Hello {
  int rank = 0, ranks = 1;
  int64_t pid = 0;
  std::string host{};  // what its machine calls itself, as it came: shown_host for messages
  std::string nonce{}, proof{};
};
Frame frame_of(const Hello& hello);
/// Error if it has none, or a host's name of more than longest_host bytes.
Hello hello_in(const Frame& frame);

/// Both ends of one connection have the same.
class Handshake {
 public:
  /// `token`: of this process; empty: none. Either nonce is empty where its side has no token.
  Handshake(std::string token, std::string job, std::string hub_nonce)
      : token_(std::move(token)), job_(std::move(job)), hub_nonce_(std::move(hub_nonce)) {}

  /// The hello with what this rank proves itself by; a rank without a token, or before a hub without one, proves nothing.
  Hello proved(Hello hello) const;
  /// Whether the hello is of a rank of this job: it has its token, or neither side has one.
  bool admits(const Hello& hello) const;
  /// What the hub proves itself by.
  std::string hub_proof(const Hello& hello) const;
  /// Keys of the frames of this connection, one for each direction; empty: they are open.
  std::string key_to_hub(const Hello& hello) const;
  std::string key_to_rank(const Hello& hello) const;

 private:
  std::string made(const char* purpose, const Hello& hello) const;

  std::string token_, job_, hub_nonce_;
};

/// 128 random bits.
std::string new_nonce();

/// What rank `from` proves to rank `to` that it is itself by, on the connection between the two. The nonces are those of their hellos.
std::string pair_proof(const std::string& token, int from, int to, const std::string& from_nonce,
                       const std::string& to_nonce);

}  // namespace reprise::distributed
