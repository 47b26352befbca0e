// safetensors: exact bytes, round trips, and every way of breaking the format.
#include "reprise/io/safetensors.h"

#include <gtest/gtest.h>

#include <cstring>

#include "reprise/core/random.h"
#include "reprise/tests/io/temp_folder.h"

namespace reprise::io {
namespace {

using testing::expect_error;
using testing::TempFolder;

// A file with this header and `data_bytes` bytes 0, 1, 2, ... of data.
std::string file_of(const std::string& header, size_t data_bytes) {
  uint64_t header_bytes = header.size();
  std::string bytes(8, '\0');
  std::memcpy(bytes.data(), &header_bytes, 8);
  bytes += header;
  for (size_t i = 0; i < data_bytes; ++i) bytes += char(i);
  return bytes;
}

class Safetensors : public ::testing::Test {
 protected:
  SafetensorsFile open(const std::string& bytes) {
    return SafetensorsFile(folder_.write("x.safetensors", bytes));
  }
  void refuses(const std::string& header, size_t data_bytes, const std::string& fact) {
    expect_error([&] { open(file_of(header, data_bytes)); }, "x.safetensors", fact);
  }
  TempFolder folder_;
};

TEST_F(Safetensors, WritesTheFormatByteForByte) {
  Tensor b = Tensor::from<uint8_t>({7, 8}, {2}), a = Tensor::from<float>({1.5f}, {});
  write_safetensors(folder_ / "x", {{"b", b}, {"a", a}}, {{"k", "v\n"}});
  std::string header = R"({"__metadata__":{"k":"v\n"},"a":{"dtype":"F32","shape":[],"data_offsets":[0,4]},)"
                       R"("b":{"dtype":"U8","shape":[2],"data_offsets":[4,6]}})";
  header.resize((header.size() + 7) / 8 * 8, ' ');
  std::string wanted = file_of(header, 0) + std::string("\0\0\xc0\x3f\x07\x08", 6);
  EXPECT_EQ(read_file(folder_ / "x"), wanted);
}

TEST_F(Safetensors, KeepsEveryDtypeAndShape) {
  Tensor tensors[] = {Tensor::from<double>({1e-300, -0.0, 3}, {3, 1}),
                      Tensor::from<float>({1, 2, 3, 4, 5, 6}, {1, 2, 3}),
                      Tensor::zeros({2}, DType::bf16),
                      Tensor::zeros({3}, DType::f16),
                      Tensor::from<int64_t>({INT64_MIN, INT64_MAX}, {2}),
                      Tensor::from<int32_t>({-1}, {1}),
                      Tensor::from<uint8_t>({0, 255, 3}, {3}),
                      Tensor::from<uint8_t>({1}, {}),
                      Tensor::empty({0, 5}, DType::f32),
                      Tensor::zeros({3}, DType::boolean)};
  NamedViews named;
  for (const Tensor& tensor : tensors)
    named.emplace_back("tensor " + std::to_string(named.size()), tensor.view());
  tensors[2].data<BFloat16>()[1] = BFloat16(-2.0f);
  tensors[3].data<Float16>()[0] = Float16(65504.0f);
  tensors[9].data<bool>()[0] = true;
  write_safetensors(folder_ / "x", named);
  SafetensorsFile file(folder_ / "x");
  EXPECT_EQ(file.tensors().size(), named.size());
  EXPECT_TRUE(file.metadata().empty());
  for (const auto& [name, view] : named) {
    Tensor back = file.read(name);
    ASSERT_EQ(back.dtype(), view.dtype) << name;
    ASSERT_EQ(back.shape(), view.shape) << name;
    size_t bytes = size_t(view.numel()) * size_of(view.dtype);
    EXPECT_TRUE(bytes == 0 || std::memcmp(back.view().data, view.data, bytes) == 0) << name;
  }
}

TEST_F(Safetensors, AlignsEveryTensorInTheFile) {
  NamedViews named;
  Tensor wide = Tensor::zeros({3}, DType::f64), mid = Tensor::zeros({3}, DType::f32),
         thin = Tensor::zeros({3}, DType::u8);
  named = {{"c", thin}, {"a", mid}, {"b", wide}};
  write_safetensors(folder_ / "x", named);
  uint64_t header_bytes = 0;
  std::memcpy(&header_bytes, read_file(folder_ / "x").data(), 8);
  EXPECT_EQ(header_bytes % 8, 0u);
  std::string order;
  SafetensorsFile file(folder_ / "x");
  for (const SafetensorInfo& info : file.tensors()) {
    order += info.name;
    EXPECT_EQ(info.begin % size_of(info.dtype), 0u) << info.name;
  }
  EXPECT_EQ(order, "bac");
}

TEST_F(Safetensors, WritesViewsInRowMajorOrder) {
  Tensor x = Tensor::from<int32_t>({0, 1, 2, 3, 4, 5}, {2, 3});
  Tensor one = Tensor::from<float>({7}, {1});
  write_safetensors(folder_ / "x", {{"transposed", transpose(x, 0, 1)}, {"expanded", expand(one, {2, 3})}});
  SafetensorsFile file(folder_ / "x");
  EXPECT_EQ(file.read("transposed").to_vector<int32_t>(), (std::vector<int32_t>{0, 3, 1, 4, 2, 5}));
  EXPECT_EQ(file.read("expanded").to_vector<float>(), std::vector<float>(6, 7));
}

TEST_F(Safetensors, DoesNotDependOnTheOrderGiven) {
  Tensor x = Tensor::zeros({3}), y = Tensor::zeros({2}, DType::u8);
  write_safetensors(folder_ / "a", {{"x", x}, {"y", y}});
  write_safetensors(folder_ / "b", {{"y", y}, {"x", x}});
  EXPECT_EQ(read_file(folder_ / "a"), read_file(folder_ / "b"));
}

TEST_F(Safetensors, ReadsOnlyIntoWhatFits) {
  SafetensorsFile file = open(file_of(R"({"a":{"dtype":"U8","shape":[2,3],"data_offsets":[0,6]}})", 6));
  Tensor right = Tensor::zeros({2, 3}, DType::u8), shape = Tensor::zeros({6}, DType::u8),
         dtype = Tensor::zeros({2, 3}), strided = Tensor::zeros({3, 2}, DType::u8);
  file.read_into("a", right);
  EXPECT_EQ(right.to_vector<int32_t>(), (std::vector<int32_t>{0, 1, 2, 3, 4, 5}));
  expect_error([&] { file.read_into("a", shape); }, "\"a\" is u8 (2, 3), wanted u8 (6,)");
  expect_error([&] { file.read_into("a", dtype); }, "wanted f32 (2, 3)");
  expect_error([&] { file.read_into("a", transpose(strided.view(), 0, 1)); }, "contiguous");
  expect_error([&] { file.read("b"); }, "x.safetensors", "no tensor \"b\"");
  EXPECT_FALSE(file.find("b").has_value());
  EXPECT_EQ(file.find("a")->end, 6u);
}

TEST_F(Safetensors, AcceptsWhatOtherWritersMake) {
  EXPECT_TRUE(open(file_of("{}", 0)).tensors().empty());
  EXPECT_EQ(open(file_of(R"({"__metadata__":{"format":"pt"}}   )", 0)).metadata().at("format"), "pt");
  SafetensorsFile file = open(file_of(R"({"b":{"data_offsets":[4,5],"shape":[1],"dtype":"BOOL"},)"
                                      R"("a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},)"
                                      R"("e":{"dtype":"F64","shape":[0,3],"data_offsets":[5,5]}})",
                                      5));
  EXPECT_EQ(file.tensors()[1].name, "b");
  expect_error([&] { file.read("b"); }, "bool 0 is 4");
}

TEST_F(Safetensors, RefusesBrokenHeaders) {
  expect_error([&] { open("1234567"); }, "7 bytes");
  expect_error([&] { open(std::string("\x01\xe1\xf5\x05\0\0\0\0{}", 10)); }, "100000001", "limit");
  expect_error([&] { open(std::string("\x03\0\0\0\0\0\0\0{}", 10)); },
               "3 bytes does not fit in a file of 10");
  expect_error([&] { open(std::string("\xff\xff\xff\xff\xff\xff\xff\xff{}", 10)); }, "limit");
  refuses("", 0, "'{'");
  refuses(" {}", 0, "'{'");
  refuses("[]", 0, "'{'");
  refuses("{}x", 0, "something follows");
  refuses(R"({"a":1})", 0, "byte 13");
}

TEST_F(Safetensors, RefusesBrokenEntries) {
  auto entry = [](const std::string& body) { return "{\"a\":{" + body + "}}"; };
  refuses(entry(R"("dtype":"U8","shape":[1])"), 1, "lacks");
  refuses(entry(R"("dtype":"F8_E4M3","shape":[1],"data_offsets":[0,1])"), 1,
          "unknown dtype \"F8_E4M3\" at byte 22");
  refuses(entry(R"("dtype":"U8","dtype":"U8","shape":[1],"data_offsets":[0,1])"), 1, "duplicate");
  refuses(entry(R"("dtype":"U8","shape":[1],"data_offsets":[0,1],"x":1)"), 1, "unknown key \"x\"");
  refuses(entry(R"("dtype":"U8","shape":[1],"data_offsets":[0,1,2])"), 1, "more than two");
  refuses(entry(R"("dtype":"U8","shape":[1],"data_offsets":[0])"), 1, "lacks");
  refuses(entry(R"("dtype":"U8","shape":[-1],"data_offsets":[0,1])"), 1, "integer -1");
  refuses(entry(R"("dtype":"U8","shape":[1.0],"data_offsets":[0,1])"), 1, "not an integer");
  refuses(entry(R"("dtype":"U8","shape":[9007199254740992],"data_offsets":[0,1])"), 1, "2^53");
  refuses(entry(R"("dtype":"U8","shape":[1,1,1,1,1,1,1,1,1],"data_offsets":[0,1])"), 1, "8 dimensions");
  refuses(entry(R"("dtype":"F32","shape":[2147483648,2147483648,4],"data_offsets":[0,0])"), 0, "overflows");
  refuses(entry(R"("dtype":"U8","shape":[4294967296,0,4294967296],"data_offsets":[0,0])"), 0, "overflows");
  refuses(entry(R"("dtype":"F32","shape":[1],"data_offsets":[0,3])"), 3,
          "takes 4 bytes, data_offsets give 3");
  refuses(entry(R"("dtype":"U8","shape":[1],"data_offsets":[1,0])"), 1, "before it begins");
  refuses(R"({"__metadata__":{"a":1}})", 0, "no string");
  refuses(R"({"__metadata__":{"a":"1","a":"2"}})", 0, "duplicate metadata \"a\"");
  refuses(R"({"__metadata__":{},"__metadata__":{}})", 0, "duplicate __metadata__");
}

TEST_F(Safetensors, RefusesDataThatDoesNotAddUp) {
  auto two = [](const std::string& name, const std::string& first, const std::string& second) {
    return R"({"a":{"dtype":"U8","shape":[2],"data_offsets":)" + first + R"(},")" + name +
           R"(":{"dtype":"U8","shape":[2],"data_offsets":)" + second + "}}";
  };
  EXPECT_EQ(open(file_of(two("b", "[2,4]", "[0,2]"), 4)).tensors().size(), 2u);
  refuses(two("a", "[0,2]", "[2,4]"), 4, "duplicate tensor \"a\"");
  refuses(two("b", "[0,2]", "[3,5]"), 5, "bytes 2 to 3 before it belong to no tensor");
  refuses(two("b", "[1,3]", "[3,5]"), 5, "bytes 0 to 1");
  refuses(two("b", "[0,2]", "[1,3]"), 3, "begins at 1, inside");
  refuses(two("b", "[0,2]", "[0,2]"), 2, "inside");
  refuses(two("b", "[0,2]", "[2,4]"), 5, "take 4 bytes, the file holds 5");
  refuses(two("b", "[0,2]", "[2,4]"), 3, "take 4 bytes, the file holds 3");
}

TEST_F(Safetensors, TruncationAtAnyByteIsAnError) {
  Tensor x = Tensor::from<float>({1, 2, 3}, {3});
  write_safetensors(folder_ / "whole", {{"x", x}}, {{"step", "7"}});
  std::string whole = read_file(folder_ / "whole");
  for (size_t length = 0; length < whole.size(); ++length) {
    EXPECT_THROW(open(whole.substr(0, length)), Error) << length << " of " << whole.size();
  }
}

TEST_F(Safetensors, DamageIsNeverWorseThanAnError) {
  std::string whole = file_of(R"({"a":{"dtype":"I32","shape":[2,1],"data_offsets":[0,8]},"b":{"dtype":"U8",)"
                              R"("shape":[3],"data_offsets":[8,11]},"__metadata__":{"x":"y"}})",
                              11);
  for (uint64_t trial = 0; trial < 2000; ++trial) {
    std::string damaged = whole;
    auto draw = philox_block(3, 0, trial);
    damaged[draw[0] % damaged.size()] = char(draw[1]);
    if (trial % 2 == 1) damaged[draw[2] % damaged.size()] = "0123456789[]{},:\"a"[draw[3] % 18];
    try {
      SafetensorsFile file = open(damaged);
      for (const SafetensorInfo& info : file.tensors()) file.read(info.name);
    } catch (const Error&) {  // the only way it may fail
    }
  }
}

TEST_F(Safetensors, RefusesToWriteWhatCannotBeRead) {
  std::string path = folder_.write("kept", "old");
  Tensor x = Tensor::zeros({1});
  expect_error([&] { write_safetensors(path, {{"x", x}, {"x", x}}); }, path, "\"x\"");
  expect_error([&] { write_safetensors(path, {{"__metadata__", x}}); }, path, "__metadata__");
  expect_error([&] { write_safetensors(path, {{"\xff", x}}); }, "not UTF-8");
  expect_error([&] { write_safetensors(path, {}, {{"k", "\xff"}}); }, "\"k\"", "not UTF-8");
  std::map<std::string, std::string> much;
  for (int i = 0; i < 4097; ++i) much[std::to_string(i)];
  expect_error([&] { write_safetensors(path, {}, much); }, path, "4097 entries of metadata");
  EXPECT_EQ(read_file(path), "old");
  much.erase("0");
  write_safetensors(path, {}, much);
  EXPECT_EQ(SafetensorsFile(path).metadata(), much);
}

}  // namespace
}  // namespace reprise::io
