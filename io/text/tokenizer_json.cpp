#include "reprise/io/text/tokenizer_json.h"

#include "reprise/core/error.h"
#include "reprise/io/text/word_splitter.h"

namespace reprise::io {
namespace {

// One step that splits text, as the file names it.
struct Step {
  std::string type{}, pattern{}, behavior{};
  bool inverts = false, individual = false, uses_regex = true, adds_space = false, is_literal = false;
};

class Reader {
 public:
  Reader(const std::string& text, const std::string& path) : text_(text), path_(path), json_(text, path) {}

  TokenizerJson read() {
    json_.object([&](const std::string& key) {
      if (key == "normalizer")
        read_normalizer();
      else if (key == "added_tokens")
        found_.added = part();
      else if (key == "pre_tokenizer" && is_object())
        read_pre_tokenizer();
      else if (key == "post_processor" && is_object())
        read_post_processor();
      else if (key == "model")
        read_model();
      else
        json_.skip();
    });
    json_.end();
    take_steps();
    check(!found_.vocab.text.empty() && !found_.merges.text.empty(), "gpt2_bpe: ", path_,
          ": its model has no vocab and merges");
    return std::move(found_);
  }

 private:
  void expect(bool holds, const char* what) const {
    if (!holds)
      fail("gpt2_bpe: ", path_, ": ", what, ": no such tokenizer here, only byte-level BPE as GPT-2's");
  }
  bool is_object() { return json_.peek() == JsonReader::Kind::object; }
  bool is_null() {
    const bool null = json_.peek() == JsonReader::Kind::null;
    json_.skip();
    return null;
  }
  JsonPart part() {
    const size_t begin = json_.offset();
    json_.skip();
    return {std::string_view(text_).substr(begin, json_.offset() - begin), begin};
  }

  void read_normalizer() {
    if (!is_object()) return expect(is_null(), "a normalizer");
    json_.object([&](const std::string& name) {
      if (name == "type")
        expect(json_.string() == "NFC", "a normalizer that is not NFC");
      else
        json_.skip();
    });
    found_.normalizes = true;
  }

  void read_model() {
    json_.object([&](const std::string& name) {
      if (name == "type")
        expect(json_.string() == "BPE", "a model that is no BPE");
      else if (name == "vocab")
        found_.vocab = part();
      else if (name == "merges")
        found_.merges = part();
      else if (name == "dropout" || name == "unk_token")
        expect(is_null(), "dropout or an unk_token");
      else if (name == "byte_fallback")
        expect(!json_.boolean(), "byte_fallback");
      else if (name == "ignore_merges")
        found_.ignores_merges = json_.boolean();
      else
        json_.skip();
    });
  }

  // One step, or a list of them.
  void read_pre_tokenizer() {
    Step step;
    bool is_list = false;
    json_.object([&](const std::string& name) {
      if (name == "pretokenizers") {
        is_list = true;
        json_.array([&] {
          Step one;
          json_.object([&](const std::string& member) { read_step_member(member, one); });
          steps_.push_back(one);
        });
      } else {
        read_step_member(name, step);
      }
    });
    if (!is_list) steps_.push_back(step);
  }

  void read_step_member(const std::string& name, Step& step) {
    if (name == "type")
      step.type = json_.string();
    else if (name == "pattern")
      json_.object([&](const std::string& kind) {
        step.is_literal = kind != "Regex";
        step.pattern = json_.string();
      });
    else if (name == "behavior")
      step.behavior = json_.string();
    else if (name == "invert")
      step.inverts = json_.boolean();
    else if (name == "individual_digits")
      step.individual = json_.boolean();
    else if (name == "use_regex")
      step.uses_regex = json_.boolean();
    else if (name == "add_prefix_space")
      step.adds_space = json_.boolean();
    else
      json_.skip();
  }

  // Of "single" the first entry, of the first processor that has one.
  void read_post_processor() {
    json_.object([&](const std::string& name) {
      if (name == "processors") {
        json_.array([&] { read_post_processor(); });
      } else if (name == "single") {
        bool is_first = true;
        json_.array([&] {
          json_.object([&](const std::string& kind) {
            if (kind == "SpecialToken" && is_first)
              json_.object([&](const std::string& member) {
                if (member == "id")
                  found_.first_token = json_.string();
                else
                  json_.skip();
              });
            else
              json_.skip();
          });
          is_first = false;
        });
      } else {
        json_.skip();
      }
    });
  }

  void take_steps() {
    bool is_byte_level = false;
    for (const Step& step : steps_) {
      expect(!is_byte_level, "a pre_tokenizer behind ByteLevel");
      if (step.type == "ByteLevel") {
        is_byte_level = true;
        expect(!step.adds_space, "add_prefix_space");
        if (step.uses_regex) found_.patterns.emplace_back(gpt2_words);
      } else if (step.type == "Digits") {
        found_.patterns.emplace_back(step.individual ? "\\p{N}" : "\\p{N}+");
      } else {
        expect(step.type == "Split" && !step.is_literal && step.behavior == "Isolated" && !step.inverts,
               "a pre_tokenizer that is not ByteLevel, Digits or Split by an isolated Regex");
        found_.patterns.push_back(step.pattern);
      }
    }
    expect(is_byte_level, "a pre_tokenizer that is not ByteLevel");
    expect(!found_.patterns.empty(), "a pre_tokenizer without its pattern");
    found_.is_gpt2 =
        steps_.size() == 1 && !found_.normalizes && !found_.ignores_merges && found_.first_token.empty();
  }

  const std::string& text_;
  const std::string& path_;
  JsonReader json_;
  TokenizerJson found_;
  std::vector<Step> steps_;
};

}  // namespace

TokenizerJson read_tokenizer_json(const std::string& text, const std::string& path) {
  return Reader(text, path).read();
}

}  // namespace reprise::io
