#include "reprise/distributed/hub/rendezvous.h"

#include <algorithm>
#include <cstdio>

#include "reprise/core/error.h"
#include "reprise/distributed/hub/address.h"
#include "reprise/distributed/hub/mac.h"
#include "reprise/io/atomic_file.h"
#include "reprise/io/crc32c.h"
#include "reprise/io/file.h"

namespace reprise::distributed {
namespace {

constexpr size_t longest_name = 100, longest_file = 4096, mac_digits = 8;

std::string in_hexadecimal(const std::string& bytes) {
  constexpr const char* digits = "0123456789abcdef";
  std::string text;
  for (const char c : bytes) {
    text += digits[static_cast<unsigned char>(c) >> 4];
    text += digits[static_cast<unsigned char>(c) & 15];
  }
  return text;
}

// What a key that is made from the token for this `use` alone says of the job and of `text`.
std::string mac_of(const std::string& token, const char* use, const std::string& job,
                   const std::string& text) {
  return in_hexadecimal(hmac_sha256(hmac_sha256(token, use), std::to_string(job.size()) + ':' + job + text));
}

// Letters, digits, '.', '-' and '_' of it; the checksum tells those apart that differ in others, and the MAC those of other
// tokens: jobs that their launcher gives no name must not replace each other's file.
std::string file_name_of(const std::string& job, const std::string& token) {
  std::string name = job.substr(0, longest_name);
  std::ranges::replace_if(
      name,
      [](char c) {
        return std::string_view("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-_")
                   .find(c) == std::string_view::npos;
      },
      '_');
  name = "reprise-" + name + '-' + std::to_string(io::crc32c(job));
  if (!token.empty()) name += '-' + mac_of(token, "reprise 2 rendezvous name", job, "").substr(0, mac_digits);
  return name + ".address";
}

}  // namespace

RendezvousFile::RendezvousFile(const std::string& folder, std::string job, std::string token)
    : path_(folder + '/' + file_name_of(job, token)), job_(std::move(job)), token_(std::move(token)) {}

std::string RendezvousFile::proof_of(const std::string& place) const {
  if (token_.empty()) return "open";
  return mac_of(token_, "reprise 2 rendezvous file", job_, place);
}

void RendezvousFile::write(const std::string& address, int port) {
  const std::string place = address + ':' + std::to_string(port);
  written_ = place + ' ' + proof_of(place) + '\n';
  io::write_file(path_, written_);
}

std::optional<Place> RendezvousFile::read() const {
  std::string text;
  try {
    text = io::read_file(path_, longest_file);
  } catch (const Error&) { return {}; }  // it is not there yet
  const size_t space = text.find(' ');
  if (space == std::string::npos || text.back() != '\n') return {};
  const std::string place = text.substr(0, space);
  if (!is_same_secret(text.substr(space + 1, text.size() - space - 2), proof_of(place))) return {};
  try {
    const HostPort at = host_port_of(place, 65535);
    const std::string address = address_of(at.host);
    if (token_.empty() && !is_loopback(address)) return {};
    return Place{address, {at.port}};
  } catch (const Error&) { return {}; }  // another program's file
}

void RendezvousFile::remove() const {
  try {
    if (io::read_file(path_, longest_file) == written_) std::remove(path_.c_str());
  } catch (const Error&) {}  // it is gone already
}

}  // namespace reprise::distributed
