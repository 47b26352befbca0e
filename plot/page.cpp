#include "reprise/plot/page.h"

#include "reprise/plot/svg.h"

namespace reprise::plot {
namespace {

constexpr const char* style = R"(
body { font: 15px/1.5 system-ui, "Segoe UI", Helvetica, Arial, sans-serif; color: #1f2328; background: #f6f8fa;
  margin: 0; }
main { max-width: 1060px; margin: 0 auto; padding: 24px; }
h1 { font-size: 24px; margin: 0; } h2 { font-size: 17px; margin: 0 0 8px; }
p { margin: 4px 0 16px; color: #59636e; }
section { background: #fff; border: 1px solid #d8dee4; border-radius: 8px; padding: 16px 20px; margin: 16px 0;
  overflow-x: auto; } h2, td:first-child { overflow-wrap: anywhere; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
th, td { padding: 4px 8px; text-align: right; white-space: nowrap; }
th { font-weight: 600; color: #59636e; border-bottom: 1px solid #d8dee4; vertical-align: bottom; white-space: normal; }
th:first-child, td:first-child { text-align: left; }
td.text, td:first-child { white-space: normal; }
tr.best td { font-weight: 600; }
svg { display: block; max-width: 100%; height: auto; } svg text { font-size: 12px; fill: #59636e; }
button { font: inherit; padding: 2px 10px; border: 1px solid #d8dee4; border-radius: 6px; background: #f6f8fa;
  cursor: pointer; }
button.on { background: #1f6feb; color: #fff; border-color: #1f6feb; }
#tip { position: fixed; display: none; background: #1f2328; color: #fff; padding: 6px 10px; border-radius: 6px;
  font-size: 13px; white-space: pre; pointer-events: none; z-index: 1; }
)";

}  // namespace

std::string page(const std::string& title, const std::string& subtitle, const std::string& body) {
  return "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n<title>" + escaped(title) +
         "</title>\n<style>" + style + "</style></head>\n<body><main>\n<h1>" + escaped(title) + "</h1>\n<p>" +
         escaped(subtitle) + "</p>\n" + body + "</main></body></html>\n";
}

}  // namespace reprise::plot
