// reprise-gpt --model llama: trained, resumed, evaluated, written as Hugging Face has it and read from there.
// labels: end-to-end
#include "reprise/io/safetensors.h"
#include "reprise/io/weights.h"
#include "reprise/tests/apps/gpt/program.h"
#include "reprise/tests/support/compare.h"
#include "reprise/train/checkpoint.h"

namespace reprise::testing {
namespace {

namespace fs = std::filesystem;

struct LlamaProgram : ::testing::Test {
  Arguments train_llama(const std::string& out, int steps, const Arguments& more = {}) const {
    Arguments all = {"--model", "llama", "--kv-heads", "1"};
    all.insert(all.end(), more.begin(), more.end());
    return train_arguments(data, folder / out, steps, all);
  }
  std::string convert(const std::string& from, const std::string& to) const {
    const std::string out = folder / (to + "_of_" + fs::path(from).filename().string());
    Program program({from, "--to", to, "--out", out}, "", convert_program());
    EXPECT_EQ(program.wait(), 0) << program.err();
    return out;
  }
  std::string loss_of(const std::string& of) const { return run({"eval", "--data", data, "--run", of}); }
  std::string written_by(const std::string& of) const {
    return run({"sample", "--prompt", "a", "--sample-tokens", "12", "--run", of});
  }
  // Changes config.json of `hf`.
  void replace(const std::string& hf, const std::string& from, const std::string& to) const {
    std::string config = bytes_of_file(hf + "/config.json");
    ASSERT_NE(config.find(from), std::string::npos) << config;
    std::ofstream(hf + "/config.json") << config.replace(config.find(from), from.size(), to);
  }

  TempFolder folder;
  const std::string data = folder.write("text", tiny_text());
};

TEST_F(LlamaProgram, GoesOnToTheBytesOfOneRun) {
  run(train_llama("whole", 4));
  run(train_llama("halves", 2));
  run({"train", "--resume", "--out", folder / "halves", "--steps", "4"});
  expect_same_checkpoints(folder / "halves", folder / "whole");
  run(train_llama("recomputed", 4, {"--recompute", "full"}));
  expect_same_checkpoints(folder / "recomputed", folder / "whole");
  EXPECT_NE(run(train_llama("more", 1)).find("Llama: 1 layers, 2 heads, 1 of keys and values, width 16"),
            std::string::npos);
}

TEST_F(LlamaProgram, IsWrittenForTransformersAndReadFromThere) {
  run(train_llama("run", 4));
  const std::string hf = convert(folder / "run", "hf");
  fs::copy(folder / "run/tokenizer", hf + "/tokenizer");
  for (const char* line :
       {"\"LlamaForCausalLM\"", "\"num_attention_heads\": 2", "\"num_key_value_heads\": 1",
        "\"intermediate_size\": 64", "\"max_position_embeddings\": 8", "\"tie_word_embeddings\": false"})
    EXPECT_NE(bytes_of_file(hf + "/config.json").find(line), std::string::npos) << line;
  EXPECT_EQ(loss_of(hf), loss_of(folder / "run"));
  EXPECT_EQ(written_by(hf), written_by(folder / "run"));
  const std::string back = convert(hf, "reprise");
  EXPECT_EQ(loss_of(back), loss_of(folder / "run"));
  EXPECT_EQ(bytes_of_file(convert(back, "hf") + "/model.safetensors"),
            bytes_of_file(hf + "/model.safetensors"));

  const Arguments start = {"train",
                           "--data",
                           data,
                           "--init-from",
                           hf,
                           "--steps",
                           "1",
                           "--lr",
                           "0",
                           "--min-lr",
                           "0",
                           "--batch",
                           "2",
                           "--eval-batches",
                           "2",
                           "--sample-tokens",
                           "2",
                           "--out",
                           folder / "next"};
  run(start);
  const auto next = train::load_checkpoint(folder / "next", false),
             first = train::load_checkpoint(folder / "run", false);
  for (const char* entry : {"architecture", "layers", "heads", "kv_heads", "width", "context", "vocab_size"})
    EXPECT_EQ(next.model.at(entry), first.model.at(entry)) << entry;
  for (size_t i = 0; i < first.parameters.size(); ++i)
    EXPECT_TRUE(same_bits(next.parameters[i].second, first.parameters[i].second))
        << first.parameters[i].first;
}

// A window as long as the context hides nothing; a head that the config says is tied is left out.
TEST_F(LlamaProgram, ConfigSaysWhatShapesDoNot) {
  run(train_llama(
      "run", 2,
      {"--tied", "--rope-theta", "500", "--norm-eps", "1e-3", "--rope-scaling", "llama3:8:1:4:16"}));
  const std::string hf = convert(folder / "run", "hf"), want = loss_of(folder / "run");
  EXPECT_EQ(loss_of(hf), want);
  replace(hf, "\"rope_theta\": 500", "\"rope_parameters\": {\"rope_theta\": 500}");
  replace(hf, "\"model_type\": \"llama\"", "\"model_type\": \"mistral\"");
  replace(hf, "\"max_position_embeddings\": 8", "\"max_position_embeddings\": 4096, \"sliding_window\": 8");
  const io::Weights file = io::read_weights(hf + "/model.safetensors");
  io::NamedViews views(file.tensors.begin(), file.tensors.end());
  const Tensor head = Tensor::zeros({10, 16});
  views.emplace_back("lm_head.weight", head);
  io::write_safetensors(hf + "/model.safetensors", views);
  auto loss_of_8 = [&] { return run({"eval", "--data", data, "--context", "8", "--run", hf}); };
  EXPECT_EQ(loss_of_8(), want);
  replace(hf, "\"sliding_window\": 8", "\"sliding_window\": 1");
  EXPECT_NE(loss_of_8(), want);
  replace(hf, "\"model_type\": \"mistral\"", "\"model_type\": \"llama\"");  // which knows no window
  EXPECT_EQ(loss_of_8(), want);
  replace(hf, "\"model_type\": \"llama\"", "\"model_type\": \"mistral\"");
  replace(hf, "\"sliding_window\": 1", "\"sliding_window\": 1, \"use_sliding_window\": false");
  EXPECT_EQ(loss_of_8(), want);
  expect_refused({"eval", "--data", data, "--context", "5000", "--run", hf},
                 {"--context 5000", "at most 4096"});
}

// As Qwen 3 and, but for the norms, Mistral: heads of their own width, norms of queries and keys, a window in all layers; and
// turns by yarn.
TEST_F(LlamaProgram, HeadsNormsAndWindowsAreThoseOfTheRun) {
  Arguments sizes = {"--layers", "2", "--head-dim",     "12",          "--qk-norm",
                     "--window", "3", "--rope-scaling", "yarn:2:8:1:4"};
  run(train_llama("run", 4, sizes));
  sizes.insert(sizes.end(), {"--recompute", "full"});
  run(train_llama("recomputed", 4, sizes));
  expect_same_checkpoints(folder / "recomputed", folder / "run");
  const std::string hf = convert(folder / "run", "hf"), want = loss_of(folder / "run");
  for (const char* line :
       {"\"Qwen3ForCausalLM\"", "\"head_dim\": 12", "\"sliding_window\": 3",
        "\"layer_types\": [\"sliding_attention\", \"sliding_attention\"]", "\"rope_type\": \"yarn\""})
    EXPECT_NE(bytes_of_file(hf + "/config.json").find(line), std::string::npos) << line;
  EXPECT_EQ(loss_of(hf), want);
  const std::string back = convert(hf, "reprise");
  EXPECT_EQ(loss_of(back), want);
  EXPECT_EQ(bytes_of_file(convert(back, "hf") + "/config.json"), bytes_of_file(hf + "/config.json"));
  fs::copy(folder / "run/tokenizer", hf + "/tokenizer");
  EXPECT_EQ(written_by(hf), written_by(folder / "run"));
  run({"train", "--data", data, "--init-from", hf, "--steps", "1", "--batch", "2", "--out", folder / "next"});
  const auto next = train::load_checkpoint(folder / "next", false),
             first = train::load_checkpoint(folder / "run", false);
  for (const char* entry : {"heads", "kv_heads", "head_dim", "qk_norm", "window"})
    EXPECT_EQ(next.model.at(entry), first.model.at(entry)) << entry;
  expect_refused({"train", "--resume", "--out", folder / "next", "--window", "4"}, {"--window"});

  const std::string config = bytes_of_file(hf + "/config.json");
  const std::string sliding = "[\"sliding_attention\", \"sliding_attention\"]",
                    no_types = "null, \"max_window_layers\": ";
  for (const auto& [from, to, message] :
       {std::tuple{sliding, std::string("[\"sliding_attention\", \"full_attention\"]"),
                   "layer_types of sliding_attention and full_attention: no such model here"},
        {sliding, no_types + "1",
         "max_window_layers 1 of 2 layers, of which some have a window: no such model here"},
        {sliding, "[\"linear_attention\"]", "layer_types with \"linear_attention\": no such model here"},
        {std::string("\"num_attention_heads\": 2"), "\"num_attention_heads\": 1",
         "head_dim 12 where the queries have 24 channels in 1 heads"}}) {
    replace(hf, from, to);
    expect_refused({"eval", "--data", data, "--run", hf}, {message});
    std::ofstream(hf + "/config.json") << config;
  }
  auto loss_with = [&](const std::string& from, const std::string& to) {
    replace(hf, from, to);
    const std::string loss = loss_of(hf);
    std::ofstream(hf + "/config.json") << config;
    return loss;
  };
  EXPECT_EQ(loss_with(sliding, no_types + "0"), want);
  const std::string whole = loss_with(sliding, "[\"full_attention\", \"full_attention\"]");
  EXPECT_NE(whole, want);
  EXPECT_EQ(loss_with(sliding, "null, \"max_window_layers\": 2"), whole);
  for (const char* other : {"\"use_sliding_window\": false", "\"uses_none\": true"})
    EXPECT_EQ(loss_with("\"use_sliding_window\": true", other), whole) << other;

  run(train_llama("mistral", 2, {"--window", "3"}));
  EXPECT_NE(bytes_of_file(convert(folder / "mistral", "hf") + "/config.json").find("\"MistralForCausalLM\""),
            std::string::npos);
  run(train_llama("both", 1, {"--qk-norm", "--qkv-bias"}));
  Program program({folder / "both", "--to", "hf", "--out", folder / "no"}, "", convert_program());
  EXPECT_EQ(program.wait(), 2);
  EXPECT_NE(program.err().find("--to hf: no model there has norms of queries and keys, and biases"),
            std::string::npos)
      << program.err();
}

// As Qwen's: 151,936 rows for 151,665 tokens.
TEST_F(LlamaProgram, RowsBehindTheTokenizersTokensStayAndAreNotSampled) {
  run(train_llama("run", 4, {"--tied"}));
  const std::string hf = convert(folder / "run", "hf");
  fs::copy(folder / "run/tokenizer", hf + "/tokenizer");
  const io::Weights file = io::read_weights(hf + "/model.safetensors");
  io::NamedViews views;
  const Tensor padded = Tensor::zeros({400, 16});
  for (const auto& [name, tensor] : file.tensors) {
    if (name == "model.embed_tokens.weight") padded.slice(0, 0, 10).copy_(tensor);
    views.emplace_back(name, name == "model.embed_tokens.weight" ? padded : tensor);
  }
  io::write_safetensors(hf + "/model.safetensors", views);
  EXPECT_FALSE(run({"sample", "--sample-tokens", "300", "--temperature", "5", "--run", hf}).empty());
  EXPECT_NE(loss_of(hf), loss_of(folder / "run"));  // they have a part of the probability
  run({"train", "--data", data, "--init-from", hf, "--steps", "1", "--batch", "2", "--out", folder / "next"});
  EXPECT_EQ(train::load_checkpoint(folder / "next", false).model.at("vocab_size"), "400");
  run({"train", "--resume", "--out", folder / "next", "--steps", "2"});
  fs::remove_all(hf + "/tokenizer");
  Program without({"train", "--data", data, "--init-from", hf, "--steps", "1", "--out", folder / "no"});
  EXPECT_EQ(without.wait(), 2);
  EXPECT_NE(without.err().find("embed_tokens.weight: given (400, 16), the module has (10, 16)"),
            std::string::npos)
      << without.err();
}

TEST_F(LlamaProgram, ModelsThatAreNotHereAreNamed) {
  run(train_llama("run", 1));
  const std::string hf = convert(folder / "run", "hf");
  const std::string config = bytes_of_file(hf + "/config.json");
  for (const auto& [from, to, message] :
       {std::tuple{"\"silu\"", "\"gelu\"", "hidden_act gelu: no such model here"},
        {"\"rope_theta\": 10000", "\"rope_scaling\": {\"type\": \"dynamic\", \"factor\": 4}",
         "rotary positions scaled by dynamic"},
        {"\"rope_theta\": 10000", "\"partial_rotary_factor\": 0.5",
         "partial_rotary_factor 0.5: no such model"},
        {"\"head_dim\": 8", "\"head_dim\": 4", "head_dim 4 where the queries have 16 channels in 2 heads"},
        {"\"num_key_value_heads\": 1", "\"num_key_value_heads\": 2", "where the keys have 1 heads"},
        {"\"num_attention_heads\": 2", "\"num_attention_heads\": 1",
         "head_dim 8 where the queries have 16 channels in 1 heads"},
        {"\"num_attention_heads\": 2", "\"num_attention_heads\": -2", "config.json: -2 attention heads"},
        {"\"max_position_embeddings\": 8", "\"max_position_embeddings\": 1000000000",
         "a context of 1000000000"},
        {"\"model_type\": \"llama\"", "\"model_type\": \"granite\"",
         "model_type granite: no such model here"}}) {
    replace(hf, from, to);
    expect_refused({"eval", "--data", data, "--run", hf}, {message});
    std::ofstream(hf + "/config.json") << config;
  }
}

// Of a run the description counts, and what is told besides has to agree.
TEST_F(LlamaProgram, DescriptionsAreComparedWithTheTensors) {
  run(train_llama("run", 1, {"--rope-theta", "1e10"}));
  EXPECT_FALSE(written_by(folder / "run").empty());
  auto refused = [&](const Arguments& arguments, const std::string& message) {
    Program program(arguments, "", convert_program());
    EXPECT_EQ(program.wait(), 2);
    EXPECT_NE(program.err().find(message), std::string::npos) << program.err();
  };
  refused({folder / "run", "--to", "hf", "--heads", "4", "--out", folder / "no"},
          "--heads 4: these weights have 2");
  run(train_arguments(data, folder / "gpt", 1));
  const train::Checkpoint llama = train::load_checkpoint(folder / "run", false),
                          gpt = train::load_checkpoint(folder / "gpt", false);
  auto write = [&](const char* name, const auto& tensors, const auto& description) {
    std::map<std::string, std::string> metadata;
    for (const auto& [key, value] : description) metadata["model." + key] = value;
    const std::string path = folder / name;
    io::write_safetensors(path, io::NamedViews(tensors.begin(), tensors.end()), metadata);
    return path;
  };
  refused({write("a.safetensors", gpt.parameters, llama.model), "--to", "hf", "--out", folder / "no"},
          "its description is of a Llama, its tensors are of a GPT");
  refused({write("b.safetensors", llama.parameters, gpt.model), "--to", "hf", "--out", folder / "no"},
          "its description is of a GPT, its tensors are of a Llama");
}

// A table may have more rows than a text has characters, and no fewer.
TEST_F(LlamaProgram, VocabularyOfATextMayBePadded) {
  run(train_llama("run", 1, {"--vocab-size", "64"}));
  EXPECT_EQ(train::load_checkpoint(folder / "run", false).model.at("vocab_size"), "64");
  run({"train", "--resume", "--out", folder / "run", "--steps", "2"});
  expect_refused(train_llama("no", 1, {"--vocab-size", "3"}), {"--vocab-size 3: the data has 10 tokens"});
  expect_refused(train_llama("no", 1, {"--vocab-size", "9223372036854775807"}),
                 {"a vocabulary of 9223372036854775807"});
  expect_refused(train_llama("no", 1, {"--rope-scaling", "linear:0"}), {"--rope-scaling", "a factor of 0"});
}

TEST_F(LlamaProgram, OptionsOfTheOtherModelAreRefused) {
  auto refused = [&](const Arguments& more, const std::string& message) {
    expect_refused(train_arguments(data, folder / "no", 2, more), {message});
    EXPECT_FALSE(fs::exists(folder / "no"));
  };
  refused({"--model", "llama", "--dropout", "0.1"}, "--dropout: --model llama has no such option");
  refused({"--tied", "--kv-heads", "1"}, "--kv-heads, --tied: --model gpt has no such option");
  refused({"--model", "llama", "--kv-heads", "3"}, "--heads 2 is not a multiple of --kv-heads 3");
  refused({"--model", "llama", "--width", "14"}, "--width 14");
  refused({"--model", "llama", "--head-dim", "7"}, "--head-dim 7: an odd number of channels");
  refused({"--model", "mamba"}, "--model");
  run(train_llama("run", 1));
  refused({"--model", "gpt", "--init-from", folder / "run"}, "--model gpt: the weights of --init-from");
  refused({"--model", "gpt", "--bias", "--vocab-size", "10", "--init-from", folder / "run"},
          "the model is a GPT");
  expect_refused({"train", "--resume", "--out", folder / "run", "--kv-heads", "2"}, {"--kv-heads"});
}

}  // namespace
}  // namespace reprise::testing
