// tar archives: those that Python's tarfile wrote are read, ours come back, and broken ones are Errors.
#include "reprise/io/tar.h"

#include <gtest/gtest.h>

#include "reprise/io/safetensors.h"
#include "reprise/tests/io/temp_folder.h"
#include "reprise/tests/support/golden.h"

namespace reprise::io {
namespace {

using reprise::testing::expect_error;
using reprise::testing::TempFolder;

// Bytes of tests/golden/archives.safetensors, by tools/make_images.py.
std::string golden(const std::string& key) {
  Tensor bytes = SafetensorsFile(reprise::testing::golden_path("archives.safetensors")).read(key);
  return std::string(reinterpret_cast<const char*>(bytes.data<uint8_t>()), size_t(bytes.numel()));
}

std::vector<TarEntry> entries_of(const std::string& archive) {
  TempFolder folder;
  return read_tar(File::open(folder.write("x.tar", archive)));
}

std::string listing(const std::vector<TarEntry>& entries) {
  std::string out;
  for (const TarEntry& entry : entries)
    out += entry.name + " " + std::to_string(entry.offset) + " " + std::to_string(entry.bytes) + "\n";
  return out;
}

// The archive with a header changed at `at` and its checksum made right again.
std::string changed(std::string archive, size_t header, size_t at, const std::string& bytes) {
  archive.replace(header + at, bytes.size(), bytes);
  archive.replace(header + 148, 8, "        ");
  unsigned sum = 0;
  for (size_t i = 0; i < 512; ++i) sum += uint8_t(archive[header + i]);
  char octal[8];
  std::snprintf(octal, sizeof octal, "%06o", sum);
  return archive.replace(header + 148, 7, std::string(octal, 7));
}

std::string ours() {
  TempFolder folder;
  TarWriter writer(folder / "x.tar");
  writer.add("a.jpg", "first");
  writer.add("a.cls", std::string(512, '7'));
  writer.add("empty.txt", "");
  writer.commit();
  return read_file(folder / "x.tar");
}

TEST(Tar, ListsWhatPythonWrote) {
  for (const char* format : {"ustar", "gnu", "pax"})
    EXPECT_EQ(listing(entries_of(golden(std::string(format) + ".file"))),
              golden(std::string(format) + ".listing"));
}

TEST(Tar, ReadsWhatItWrote) {
  std::string archive = ours();
  EXPECT_EQ(listing(entries_of(archive)), "a.jpg 512 5\na.cls 1536 512\nempty.txt 2560 0\n");
  EXPECT_EQ(archive.substr(512, 5), "first");
  EXPECT_EQ(archive.size(), 2560u + 1024u);
  EXPECT_EQ(ours(), archive);
}

TEST(Tar, IsNotThereUntilCommitted) {
  TempFolder folder;
  {
    TarWriter writer(folder / "x.tar");
    writer.add("a", "b");
  }
  expect_error([&] { File::open(folder / "x.tar"); }, "x.tar");
  TarWriter writer(folder / "x.tar");
  expect_error([&] { writer.add("", "b"); }, "has 0 bytes, where 1 to 100 have room");
  expect_error([&] { writer.add(std::string(101, 'n'), "b"); }, "has 101 bytes");
}

TEST(Tar, CutOffIsAnError) {
  std::string archive = ours();
  for (size_t size = 0; size < archive.size() - 1024; size += 61)
    expect_error([&] { entries_of(archive.substr(0, size)); }, "x.tar");
  expect_error([&] { entries_of(archive.substr(0, 515)); },
               "byte 0: an entry of 5 bytes reaches over the end at 515");
  expect_error([&] { entries_of(archive.substr(0, 2560)); },
               "byte 2560: the archive is cut off: its end mark is missing");
}

TEST(Tar, ChangedHeadersAreErrors) {
  std::string archive = ours();
  archive[1024] = 'b';
  expect_error([&] { entries_of(archive); }, "x.tar: byte 1024: is no header: its checksum is wrong");
  expect_error([&] { entries_of(changed(ours(), 0, 124, "7777777777")); }, "byte 0: an entry of ",
               "reaches over the end");
  expect_error([&] { entries_of(changed(ours(), 0, 124, "00000x")); },
               "byte 0: a number of its header is not octal");
  expect_error([&] { entries_of(changed(ours(), 0, 124, "\x80" + std::string(11, '\xff'))); },
               "is too large");
  EXPECT_EQ(
      listing(entries_of(changed(ours(), 0, 124, "\x80" + std::string(10, '\0') + "\x05"))).substr(0, 11),
      "a.jpg 512 5");
}

TEST(Tar, NamesThatLeadOutAreErrors) {
  for (const char* name : {"../a", "/etc/a", "a/..", "a/../../b"}) {
    std::string padded = name;
    padded.resize(100);
    expect_error([&] { entries_of(changed(ours(), 0, 0, padded)); }, "byte 0: the name ",
                 "leads out of the archive");
  }
}

TEST(Tar, CompressedOnesSayWhatToDo) {
  for (const char* magic : {"\x1f\x8b\x08", "BZh9", "\x28\xb5\x2f\xfd",
                            "\xfd"
                            "7zXZ"})
    expect_error([&] { entries_of(magic + std::string(600, 'x')); }, "x.tar: is compressed: unpack it");
}

TEST(Tar, DamagedPaxHeadersAreErrors) {
  std::string archive = golden("pax.file");
  size_t record = archive.find(" path=");
  ASSERT_NE(record, std::string::npos);
  for (const char* length : {"999", "001", "x12"}) {
    std::string damaged = archive;
    damaged.replace(record - 3, 3, length);
    expect_error([&] { entries_of(damaged); }, "its pax header is damaged");
  }
}

}  // namespace
}  // namespace reprise::io
