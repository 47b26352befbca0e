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

constexpr size_t longest_name = 100, longest_file = 4096;

// Letters, digits, '.', '-' and '_' of it; the checksum tells those apart that differ in others.
std::string file_name_of(const std::string& job) {
  std::string name = job.substr(0, longest_name);
  std::ranges::replace_if(
      name,
      [](char c) {
        return std::string_view("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-_")
                   .find(c) == std::string_view::npos;
      },
      '_');
  return "reprise-" + name + '-' + std::to_string(io::crc32c(job)) + ".address";
}

std::string in_hexadecimal(const std::string& bytes) {
  constexpr const char* digits = "0123456789abcdef";
  std::string text;
  for (const char c : bytes) {
    text += digits[static_cast<unsigned char>(c) >> 4];
    text += digits[static_cast<unsigned char>(c) & 15];
  }
  return text;
}

}  // namespace

RendezvousFile::RendezvousFile(const std::string& folder, std::string job, std::string token)
    : path_(folder + '/' + file_name_of(job)), job_(std::move(job)), token_(std::move(token)) {}

std::string RendezvousFile::proof_of(const std::string& place) const {
  if (token_.empty()) return "open";
  return in_hexadecimal(hmac_sha256(hmac_sha256(token_, "reprise 2 rendezvous file"),
                                    std::to_string(job_.size()) + ':' + job_ + place));
}

void RendezvousFile::write(const std::string& address, int port) const {
  const std::string place = address + ':' + std::to_string(port);
  io::write_file(path_, place + ' ' + proof_of(place) + '\n');
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

void RendezvousFile::remove() const { std::remove(path_.c_str()); }

}  // namespace reprise::distributed
