// Archives by libzip.
#include <zip.h>

#include <memory>
#include <set>

#include "reprise/core/error.h"
#include "reprise/core/quote.h"
#include "reprise/io/arrays/npy_stream.h"
#include "reprise/io/arrays/npz.h"
#include "reprise/io/atomic_file.h"

namespace reprise::io {
namespace {

constexpr std::string_view suffix = ".npy";
constexpr uint64_t most_from_a_byte = 1032;  // what deflate can make of one, of zeros

using EntryReader = std::unique_ptr<zip_file_t, void (*)(zip_file_t*)>;

void close_entry(zip_file_t* entry) { zip_fclose(entry); }

// An open archive; what was added and is not committed is dropped.
class Archive {
 public:
  // `path`: of the user, for messages; `name`: of the file.
  Archive(std::string path, const std::string& name, int flags) : path_(std::move(path)) {
    int code = 0;
    zip_ = zip_open(name.c_str(), flags, &code);
    if (zip_) return;
    zip_error_t error;
    zip_error_init_with_code(&error, code);
    const std::string words = zip_error_strerror(&error);
    zip_error_fini(&error);
    fail("npz: ", path_, ": ", words);
  }
  ~Archive() {
    if (zip_) zip_discard(zip_);
  }
  Archive(const Archive&) = delete;

  int64_t entries() const { return zip_get_num_entries(zip_, 0); }

  Tensor read(int64_t entry, std::string& name) const {
    zip_stat_t about;
    check(zip_stat_index(zip_, zip_uint64_t(entry), 0, &about) == 0, "npz: ", path_, ": ",
          zip_strerror(zip_));
    name = about.name;
    const std::string where = path_ + ": " + quote(name);
    check(std::string_view(name).ends_with(suffix) && name.size() > suffix.size(), "npz: ", where,
          " is no array");
    name.resize(name.size() - suffix.size());
    check(about.encryption_method == ZIP_EM_NONE, "npz: ", where, " is encrypted");
    check(about.size / most_from_a_byte <= about.comp_size, "npz: ", where, ": ", about.comp_size,
          " bytes cannot hold the ", about.size, " that it says it has");
    const EntryReader reader(zip_fopen_index(zip_, zip_uint64_t(entry), 0), close_entry);
    check(reader != nullptr, "npz: ", where, ": ", zip_strerror(zip_));
    auto refuse = [&] {
      const std::string words = zip_file_strerror(reader.get());
      fail("npz: ", where, ": ", words == "No error" ? "it ends too early" : words);
    };
    const Tensor array = read_npy(ByteStream{where, about.size, [&](void* data, size_t bytes) {
                                               const zip_int64_t got = zip_fread(reader.get(), data, bytes);
                                               if (got != zip_int64_t(bytes)) refuse();
                                             }});
    char more = 0;  // asked for behind the end, libzip compares the checksum
    if (zip_fread(reader.get(), &more, 1) != 0) refuse();
    return array;
  }

  // The bytes are read when the archive is closed, and have to be there until then.
  void add(const std::string& name, std::string_view front, std::string_view elements) {
    zip_buffer_fragment_t parts[2] = {};
    for (int i = 0; const std::string_view bytes : {front, elements}) {
      parts[i].data = reinterpret_cast<zip_uint8_t*>(const_cast<char*>(bytes.data()));
      parts[i++].length = bytes.size();
    }
    zip_source_t* source = zip_source_buffer_fragment(zip_, parts, elements.empty() ? 1 : 2, 0);
    check(source != nullptr, "npz: ", path_, ": ", zip_strerror(zip_));
    const zip_int64_t entry =
        zip_file_add(zip_, (name + std::string(suffix)).c_str(), source, ZIP_FL_ENC_UTF_8);
    if (entry < 0) zip_source_free(source);
    check(entry >= 0 && zip_set_file_compression(zip_, zip_uint64_t(entry), ZIP_CM_STORE, 0) == 0 &&
              zip_file_set_dostime(zip_, zip_uint64_t(entry), 0, first_date, 0) == 0,
          "npz: ", path_, ": ", quote(name), ": ", zip_strerror(zip_));
  }

  void close() {
    check(zip_close(zip_) == 0, "npz: ", path_, ": ", zip_strerror(zip_));
    zip_ = nullptr;
  }

 private:
  static constexpr zip_uint16_t first_date = 1 << 5 | 1;  // 1980-01-01, the first that a zip file can say

  std::string path_;
  zip_t* zip_ = nullptr;
};

}  // namespace

bool has_npz() { return true; }

NamedArrays read_npz(const std::string& path) {
  File::open(path);  // what is no regular file is told as everywhere
  const Archive archive(path, path, ZIP_RDONLY);
  NamedArrays arrays;
  std::set<std::string> names;
  for (int64_t entry = 0; entry < archive.entries(); ++entry) {
    std::string name;
    Tensor array = archive.read(entry, name);
    check(names.insert(name).second, "npz: ", path, ": ", quote(name), " is there twice");
    arrays.emplace_back(name, std::move(array));
  }
  return arrays;
}

void write_npz(const std::string& path, const NamedArrays& arrays) {
  if (arrays.empty()) {
    const std::string end_of_directory = "PK\5\6" + std::string(18, '\0');  // libzip writes no empty archive
    return write_file(path, end_of_directory);
  }
  AtomicFile file(path);
  std::vector<std::pair<std::string, Tensor>> bytes;  // fronts, and elements side by side in host memory
  std::set<std::string> names;
  bytes.reserve(arrays.size());  // what the archive is given stays where it is
  Archive archive(path, file.temporary(), ZIP_CREATE | ZIP_TRUNCATE);
  for (const auto& [name, x] : arrays) {
    check(name.find('\0') == std::string::npos, "npz: ", path, ": the name ", quote(name), " has a byte 0");
    check(!name.empty() && names.insert(name).second, "npz: ", path, ": the name ", quote(name),
          name.empty() ? " is empty" : " is there twice");
    auto& [front, elements] =
        bytes.emplace_back(npy_front(path, x), x.detach().to(Device::cpu()).contiguous());
    archive.add(name, front,
                {static_cast<const char*>(elements.view().data),
                 size_t(elements.numel()) * size_of(elements.dtype())});
  }
  archive.close();
  file.reopen();
  file.commit();
}

}  // namespace reprise::io
